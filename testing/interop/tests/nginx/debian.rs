//! Debian's nginx as it is installed: its configuration is taken without an edit, with
//! whichever of its modules are there, its default site is served, and nginx takes the
//! same files still.

use crate::NGINX;
use crate::answer::Connection;
use interop::{Nearside, Running, in_namespace, wait_for};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Packages that the configuration may come from.
const PACKAGES: [&str; 3] = ["nginx-light", "nginx-full", "nginx-extras"];

/// Where the program writes: memory, for this test alone.
const WRITTEN: [&str; 3] = ["/run", "/var/log", "/var/lib/nginx"];

fn is_installed(package: &str) -> bool {
    let told = Command::new("dpkg-query").args(["-W", "-f", "${Status}", package]).output();
    told.is_ok_and(|told| told.stdout.ends_with(b" installed"))
}

/// Has this thread, and what it starts, see folders of its own where it is written.
pub(crate) fn keep_apart() {
    // SAFETY: takes flags by value and moves only this thread.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0, "{}", std::io::Error::last_os_error());
    let mount = |words: &[&str]| {
        let done = Command::new("mount").args(words).status().expect("mount starts");
        assert!(done.success(), "mount {words:?}");
    };
    mount(&["--make-rprivate", "/"]);
    for folder in WRITTEN.iter().filter(|folder| Path::new(folder).is_dir()) {
        mount(&["-t", "tmpfs", "-o", "mode=755", "tmpfs", folder]);
    }
    fs::create_dir_all("/var/log/nginx").unwrap();
}

#[test]
fn the_configuration_of_debian_is_taken_and_served_as_it_is() {
    if !Path::new("/etc/nginx/nginx.conf").is_file() || !Path::new("/etc/nginx/modules-enabled").is_dir() {
        println!("left out: Debian's nginx is not installed; run: apt-get install nginx-light");
        return;
    }
    in_namespace(&[NGINX], || {
        for package in PACKAGES.iter().filter(|package| !is_installed(package)) {
            println!("left out: {package} is not installed");
        }
        keep_apart();
        let test = |program: &mut Command| {
            let told = program.arg("-t").output().expect("it starts");
            (told.status.success(), String::from_utf8_lossy(&told.stderr).into_owned())
        };
        let modules = fs::read_dir("/etc/nginx/modules-enabled").unwrap().count();
        let (good, said) = test(&mut Nearside::command(["nginx"]));
        assert!(
            good && said.contains("/etc/nginx/nginx.conf syntax is ok") && said.ends_with("test is successful\n"),
            "{said}"
        );
        assert!(said.matches("module \"").count() <= modules, "{said}");
        let mut server = Running::start(&mut Nearside::command(["nginx", "-g", "daemon off;"]));
        server.wait_until_open("127.0.0.1:80");
        let ours = Connection::open("127.0.0.1:80").ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET");
        wait_for("the file with its id", || Path::new("/run/nginx.pid").exists());
        let told = Nearside::command(["nginx", "-s", "reload"]).status().expect("it starts");
        assert!(told.success(), "{}", server.said());
        server.stop();
        let (good, said) = test(&mut Command::new("/usr/sbin/nginx"));
        assert!(good, "nginx takes the same files: {said}");
        let mut server = Running::start(Command::new("/usr/sbin/nginx").args(["-g", "daemon off;"]));
        server.wait_until_open("127.0.0.1:80");
        let theirs = Connection::open("127.0.0.1:80").ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET");
        assert_eq!((ours.status(), ours.plain_body()), (theirs.status(), theirs.plain_body()));
        assert_eq!(ours.status(), Some(200));
    });
}
