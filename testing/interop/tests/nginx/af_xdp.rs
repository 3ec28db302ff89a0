//! `nearside nginx` on the host's own addresses over AF_XDP, as root starts it: under
//! a parent, as nobody, with its client at the other end of a veth pair.

use interop::veth::{Far, SERVER};
use interop::{Nearside, Program, Running, in_namespace, output, scratch, wait_for};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const CURL: Program = Program::new("curl", "curl");

/// A site that says `text`, with what else is to differ.
fn configure(folder: &Path, (port, connections, text): (u16, u32, &str)) {
    let configuration = format!(
        "daemon off; pid nginx.pid; error_log logs/error.log;\n\
         events {{ worker_connections {connections}; }}\n\
         http {{ access_log logs/access.log; server {{ listen {port}; root www;\n\
         location = /text {{ return 200 {text}; }} }} }}\n"
    );
    fs::write(folder.join("nginx.conf"), configuration).unwrap();
}

fn fetch(far: &Far, url: &str) -> String {
    let mut curl = far.command("curl");
    output(curl.args(["--silent", "--show-error", "--max-time", "20", "--retry", "3", url]))
}

fn start(far: &Far, folder: &Path) -> Running {
    let mut command = Nearside::command(["nginx", "-e", "stderr", "--link"]);
    command.arg(format!("af_xdp:{SERVER}")).arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    let mut server = Running::start(&mut command);
    far.wait_until_served(&mut server, "http://10.7.0.1/text");
    server
}

#[test]
fn a_configuration_is_served_on_the_hosts_addresses_and_reloaded() {
    in_namespace(&[CURL], || {
        let folder = scratch("nginx-af-xdp");
        let _ = fs::remove_dir_all(&folder);
        ["www", "logs"].iter().for_each(|name| fs::create_dir_all(folder.join(name)).unwrap());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("www/file.txt"), "x".repeat(100_000)).unwrap();
        configure(&folder, (80, 512, "one"));
        let far = Far::new(1);
        let server = start(&far, &folder);
        assert_eq!(fetch(&far, "http://10.7.0.1/file.txt").len(), 100_000);
        let told = || fs::read_to_string(folder.join("logs/error.log")).unwrap_or_default();
        assert!(told().contains("serves as nobody"), "{}", told());

        // Clients on the host itself, too.
        let here = || output(Command::new("curl").args(["--silent", "--max-time", "20", "http://10.7.0.1/text"]));
        assert_eq!(here(), "one");

        let pid = || fs::read_to_string(folder.join("nginx.pid")).unwrap();
        let first = pid();
        configure(&folder, (80, 512, "two"));
        server.signal(Signal::HUP);
        wait_for("another text", || fetch(&far, "http://10.7.0.1/text") == "two");
        wait_for("it on the host itself", || here() == "two");

        // What the program on the interface takes is said when it is loaded: another
        // port changes nothing.
        configure(&folder, (8_080, 512, "three"));
        server.signal(Signal::HUP);
        wait_for("a refusal", || told().contains("another \"listen\" on the host's own addresses"));
        assert_eq!(fetch(&far, "http://10.7.0.1/text"), "two");

        // The log goes on in another file.
        let log = folder.join("logs/access.log");
        wait_for("lines", || fs::read_to_string(&log).is_ok_and(|text| text.contains("GET /file.txt")));
        fs::rename(&log, folder.join("logs/access.log.1")).unwrap();
        server.signal(Signal::USR1);
        wait_for("a new log", || {
            let _ = fetch(&far, "http://10.7.0.1/text");
            fs::read_to_string(&log).is_ok_and(|text| text.contains("GET /text"))
        });
        assert_eq!(pid(), first, "it is its parent's");
        server.stop();
        assert!(!folder.join("nginx.pid").exists());
    });
}
