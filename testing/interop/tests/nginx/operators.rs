//! What operators meet beside answers is as with nginx: what servers of logs are told,
//! and what becomes of sockets.

use crate::NGINX;
use crate::answer::Connection;
use crate::theirs;
use interop::{Nearside, Running, in_namespace, scratch, wait_for};
use rustix::process::Signal;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Where each listens, one after the other.
const ADDRESS: &str = "127.0.0.1:80";

/// Far more than a busy machine takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of them, serving in a folder of its own.
struct Server {
    folder: PathBuf,
    running: Running,
}

impl Server {
    /// Serves by `conf`, in which `{folder}` is its folder.
    fn start(is_nginx: bool, name: &str, conf: &str) -> Self {
        let folder = Self::folder(is_nginx, name);
        write_conf(&folder, conf);
        let mut command = if is_nginx { Command::new(theirs::program()) } else { Nearside::command(["nginx"]) };
        command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "default.log"]);
        let mut running = Running::start(&mut command);
        running.wait_until_open(ADDRESS);
        Self { folder, running }
    }

    /// A folder for one of them, with nothing but an empty one that is served.
    fn folder(is_nginx: bool, name: &str) -> PathBuf {
        let folder = scratch("nginx-operators").join(name).join(if is_nginx { "nginx" } else { "nearside" });
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("www")).unwrap();
        folder
    }

    fn reload(&self, conf: &str) {
        write_conf(&self.folder, conf);
        self.running.signal(Signal::HUP);
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

fn write_conf(folder: &std::path::Path, conf: &str) {
    let text = format!(
        "user root; worker_processes 1; daemon off; pid pid; events {{}}\n{}",
        conf.replace("{folder}", folder.to_str().unwrap())
    );
    fs::write(folder.join("nginx.conf"), text).unwrap();
}

/// What `observe` sees of nginx, and of ours.
fn both<T>(mut observe: impl FnMut(bool) -> T) -> [T; 2] {
    [true, false].map(|is_nginx| observe(is_nginx))
}

fn get(path: &str) -> Option<u16> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    Connection::open(ADDRESS).ask(request.as_bytes(), b"GET").status()
}

/// What servers of logs are told of errors: how severe they are, and the line; with the
/// process's own.
#[test]
fn errors_are_told_to_syslog_servers() {
    const CONF: &str = "\
        error_log syslog:server=unix:{folder}/log,facility=local3,severity=debug,tag=web_1,nohostname warn;\n\
        http { access_log off; server { listen 127.0.0.1:80; root www;\n\
        location /own/ { error_log syslog:server=unix:{folder}/log,facility=user,nohostname info; }\n\
        location /quiet/ { error_log syslog:server=unix:{folder}/log,nohostname crit; }\n\
        location /both/ { error_log both.log; error_log syslog:server=unix:{folder}/log,tag=both,nohostname; }\n\
        } }";
    in_namespace(&[NGINX], || {
        let told = both(|is_nginx| {
            // The folder is made anew with the server.
            fs::create_dir_all(scratch("nginx-operators")).unwrap();
            let place = scratch("nginx-operators").join(if is_nginx { "log.nginx" } else { "log.near" });
            let _ = fs::remove_file(&place);
            let listens = UnixDatagram::bind(&place).unwrap();
            listens.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let conf = CONF.replace("{folder}/log", place.to_str().unwrap());
            let server = Server::start(is_nginx, "syslog", &conf);
            let mut lines = Vec::new();
            for path in ["/missing", "/own/missing", "/quiet/missing", "/both/missing", "/"] {
                assert_eq!(get(path), Some(if path == "/" { 403 } else { 404 }), "{path}");
            }
            wait_for("four lines", PATIENCE, || {
                lines.extend(receive(&listens));
                lines.iter().filter(|line| line.contains(", client: ")).count() >= 4
            });
            server.reload("nonsense on;");
            wait_for("a line of the process", PATIENCE, || {
                lines.extend(receive(&listens));
                lines.iter().any(|line| line.contains("unknown directive \"nonsense\""))
            });
            lines.retain(|line| line.contains(", client: "));
            lines.sort();
            // The process has a file always, and a place has what it says.
            let count = |name: &str, path: &str| server.text(name).matches(&format!("\"GET {path} ")).count();
            let files = [count("default.log", "/missing"), count("default.log", "/both/missing")];
            wait_for("a file", PATIENCE, || count("both.log", "/both/missing") == 1);
            let folder = server.folder.to_str().unwrap().to_owned();
            let lines: Vec<String> = lines.iter().map(|line| line.replace(&folder, "")).collect();
            server.running.stop();
            (lines, files)
        });
        assert_eq!(told[0], told[1]);
        assert_eq!(told[0].0.iter().filter(|line| line.starts_with("<155>")).count(), 2, "{told:?}");
    });
}

/// A datagram that is there, without times and numbers of processes and connections.
fn receive(listens: &UnixDatagram) -> Option<String> {
    let mut bytes = [0; 4_096];
    let length = match listens.recv(&mut bytes) {
        Ok(length) => length,
        Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
        Err(why) => panic!("{why}"),
    };
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    let (priority, rest) = text.split_once('>')?;
    // `Nov 23 05:08:03 `
    let rest = rest.get(16..)?;
    let (tag, line) = rest.split_once(": ")?;
    let mut shown = format!("{priority}>{tag}: ");
    let mut within = false;
    for each in line.chars() {
        if !each.is_ascii_digit() {
            shown.push(each);
        } else if !within {
            shown.push('N');
        }
        within = each.is_ascii_digit();
    }
    Some(shown)
}
