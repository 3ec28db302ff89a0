//! Debian's nginx-light, nginx-full and nginx-extras: their configuration is taken without
//! an edit, their default site is served, and nginx takes the same files still.
//!
//! The three differ by the modules that they have loaded; all else is of the package that
//! they stand on. So a machine that has any of them shows what ours makes of all three.
//! nginx itself is asked of those whose modules are there: installed, or unpacked below the
//! folder that [`UNPACKED`] names, which `scripts/debian-nginx.sh` fills from Debian's
//! packages.

use crate::NGINX;
use crate::answer::Connection;
use interop::{Nearside, Running, in_namespace, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names a folder with the packages' files.
const UNPACKED: &str = "NEARSIDE_DEBIAN_NGINX";

/// What a package has loaded: names of files in `modules-enabled`, without what they end
/// with, in the order in which they are read.
const PACKAGES: [(&str, &[&str]); 3] = [
    ("nginx-light", &["50-mod-http-echo"]),
    (
        "nginx-full",
        &[
            "50-mod-http-auth-pam",
            "50-mod-http-dav-ext",
            "50-mod-http-echo",
            "50-mod-http-geoip2",
            "50-mod-http-subs-filter",
            "50-mod-http-upstream-fair",
            "50-mod-stream",
            "70-mod-stream-geoip2",
        ],
    ),
    (
        "nginx-extras",
        &[
            "10-mod-http-ndk",
            "50-mod-http-auth-pam",
            "50-mod-http-cache-purge",
            "50-mod-http-dav-ext",
            "50-mod-http-echo",
            "50-mod-http-fancyindex",
            "50-mod-http-geoip",
            "50-mod-http-geoip2",
            "50-mod-http-headers-more-filter",
            "50-mod-http-image-filter",
            "50-mod-http-lua",
            "50-mod-http-perl",
            "50-mod-http-subs-filter",
            "50-mod-http-uploadprogress",
            "50-mod-http-upstream-fair",
            "50-mod-http-xslt-filter",
            "50-mod-mail",
            "50-mod-nchan",
            "50-mod-stream",
            "70-mod-stream-geoip",
            "70-mod-stream-geoip2",
        ],
    ),
];

/// Where files that load modules are, of those that are loaded and of all that are there.
const ENABLED: &str = "/etc/nginx/modules-enabled";
const AVAILABLE: &str = "/usr/share/nginx/modules-available";

/// Where the program writes: memory, for this test alone.
const WRITTEN: [&str; 3] = ["/run", "/var/log", "/var/lib/nginx"];

/// The file of a module, below /usr/lib/nginx.
fn module(name: &str) -> String {
    let name = name.split_once("mod-").expect("a number before it").1.replace('-', "_");
    let prefix = match name.as_str() {
        "http_ndk" => return "modules/ndk_http_module.so".to_owned(),
        _ => "ngx",
    };
    format!("modules/{prefix}_{name}_module.so")
}

fn mount(words: &[&str]) {
    let done = Command::new("mount").args(words).status().expect("mount starts");
    assert!(done.success(), "mount {words:?}");
}

/// Has this thread, and what it starts, see folders of its own where it is written, and
/// the packages' files beside those that are installed.
pub(crate) fn keep_apart(unpacked: Option<&Path>) {
    // SAFETY: takes flags by value and moves only this thread.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0, "{}", std::io::Error::last_os_error());
    mount(&["--make-rprivate", "/"]);
    if let Some(unpacked) = unpacked {
        let layers = format!("lowerdir={}:/usr", unpacked.join("usr").display());
        mount(&["-t", "overlay", "-o", &layers, "overlay", "/usr"]);
    }
    for folder in WRITTEN.iter().filter(|folder| Path::new(folder).is_dir()).chain([&ENABLED]) {
        mount(&["-t", "tmpfs", "-o", "mode=755", "tmpfs", folder]);
    }
    fs::create_dir_all("/var/log/nginx").unwrap();
}

/// Has the modules of a package loaded. Whether all of them are there.
fn enable(modules: &[&str], unpacked: bool) -> bool {
    for file in fs::read_dir(ENABLED).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let mut has_all = true;
    for name in modules {
        let text = format!("load_module {};\n", module(name));
        let own = format!("{AVAILABLE}/{}.conf", &name[3..]);
        if unpacked {
            assert_eq!(fs::read_to_string(&own).expect(&own), text, "as the package has it");
        }
        fs::write(format!("{ENABLED}/{name}.conf"), text).unwrap();
        has_all &= Path::new("/usr/lib/nginx").join(module(name)).exists();
    }
    has_all
}

/// What `-t` comes to, and what it says.
fn test(program: &mut Command) -> (bool, String) {
    let told = program.arg("-t").output().expect("it starts");
    (told.status.success(), String::from_utf8_lossy(&told.stderr).into_owned())
}

/// Status and body of the default site.
fn default_site(mut server: Command) -> (Option<u16>, Vec<u8>) {
    let mut server = Running::start(server.args(["-g", "daemon off;"]));
    server.wait_until_open("127.0.0.1:80");
    let answer = Connection::open("127.0.0.1:80").ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET");
    wait_for("the file with its id", || Path::new("/run/nginx.pid").exists());
    let answer = (answer.status(), answer.plain_body().to_vec());
    server.stop();
    answer
}

/// Ours with the modules of one package; and nginx, where it has them.
fn check(package: &str, modules: &[&str], unpacked: bool) {
    let has_all = enable(modules, unpacked);
    let (good, said) = test(&mut Nearside::command(["nginx"]));
    let taken = said.contains("/etc/nginx/nginx.conf syntax is ok") && said.ends_with("test is successful\n");
    assert!(good && taken, "{package}: {said}");
    for name in modules {
        // It has no directives of its own.
        if *name != "10-mod-http-ndk" {
            let module = module(name).replace("modules/", "").replace(".so", "");
            assert_eq!(said.matches(&format!("[warn] module \"{module}\"")).count(), 1, "{package}: {module}: {said}");
        }
    }
    let ours = default_site(Nearside::command(["nginx"]));
    assert_eq!(ours.0, Some(200), "{package}");
    if !has_all {
        println!("left out: nginx beside {package}, whose modules are not all here; run: scripts/debian-nginx.sh");
        return;
    }
    let (good, said) = test(&mut Command::new("/usr/sbin/nginx"));
    assert!(good, "nginx takes the same files of {package}: {said}");
    assert_eq!(ours, default_site(Command::new("/usr/sbin/nginx")), "{package}");
}

#[test]
fn the_configuration_of_debian_is_taken_and_served_as_it_is() {
    if !Path::new("/etc/nginx/nginx.conf").is_file() || !Path::new(ENABLED).is_dir() {
        println!("left out: Debian's nginx is not installed; run: apt-get install nginx-light");
        return;
    }
    in_namespace(&[NGINX], || {
        let unpacked = std::env::var_os(UNPACKED).map(PathBuf::from);
        keep_apart(unpacked.as_deref());
        for (package, modules) in PACKAGES {
            check(package, modules, unpacked.is_some());
        }
    });
}
