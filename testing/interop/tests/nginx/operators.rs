//! What operators meet beside answers is as with nginx: what servers of logs are told,
//! and what becomes of sockets.

use crate::NGINX;
use crate::answer::{Answer, Connection};
use crate::theirs;
use interop::{Nearside, Running, in_namespace, output, scratch, wait_for};
use rustix::net::sockopt;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};
use std::ffi::CString;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Where each listens, one after the other.
pub(crate) const ADDRESS: &str = "127.0.0.1:80";

/// One of them, serving in a folder of its own.
pub(crate) struct Server {
    pub folder: PathBuf,
    pub running: Running,
}

impl Server {
    /// Serves by `conf`, in which `{folder}` is its folder.
    pub(crate) fn start(is_nginx: bool, name: &str, conf: &str) -> Self {
        Self::start_in(is_nginx, Self::folder(is_nginx, name), conf)
    }

    /// The same in a folder that is there.
    fn start_in(is_nginx: bool, folder: PathBuf, conf: &str) -> Self {
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

    /// From now on its file says this.
    pub(crate) fn write(&self, conf: &str) {
        write_conf(&self.folder, conf);
    }

    pub(crate) fn reload(&self, conf: &str) {
        self.write(conf);
        self.running.signal(Signal::HUP);
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

fn write_conf(folder: &std::path::Path, conf: &str) {
    let user = if conf.starts_with("user ") { "" } else { "user root; " };
    let text = format!(
        "{user}worker_processes 1; daemon off; pid pid; events {{}}\n{}",
        conf.replace("{folder}", folder.to_str().unwrap())
    );
    fs::write(folder.join("nginx.conf"), text).unwrap();
}

/// What `observe` sees of nginx, and of ours.
pub(crate) fn both<T>(observe: impl FnMut(bool) -> T) -> [T; 2] {
    [true, false].map(observe)
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
            wait_for("four lines", || {
                lines.extend(receive(&listens));
                lines.iter().filter(|line| line.contains(", client: ")).count() >= 4
            });
            server.reload("nonsense on;");
            wait_for("a line of the process", || {
                lines.extend(receive(&listens));
                lines.iter().any(|line| line.contains("unknown directive \"nonsense\""))
            });
            lines.retain(|line| line.contains(", client: "));
            lines.sort();
            // The process has a file always, and a place has what it says.
            let count = |name: &str, path: &str| server.text(name).matches(&format!("\"GET {path} ")).count();
            let files = [count("default.log", "/missing"), count("default.log", "/both/missing")];
            wait_for("a file", || count("both.log", "/both/missing") == 1);
            let folder = without_numbers(server.folder.to_str().unwrap());
            let lines: Vec<String> = lines.iter().map(|line| line.replace(&folder, "")).collect();
            server.running.stop();
            (lines, files)
        });
        assert_eq!(told[0], told[1]);
        assert_eq!(told[0].0.iter().filter(|line| line.starts_with("<155>")).count(), 2, "{told:?}");
    });
}

/// Which connection of all a request came by, and what becomes of one that is old.
#[test]
fn connections_are_counted_and_end_by_their_age() {
    const CONF: &str = "\
        http { log_format told '$connection $connection_requests $uri'; access_log access.log told;\n\
        server { listen 127.0.0.1:80; root www; {server}\n\
        location = /made { {location} return 200 made; }\n\
        location = /file { {location} try_files /file =404; }\n\
        location = /at { {location} return 200 \"$connection $connection_requests\"; }\n\
        location = /any { return 200 \"$connection $connection_requests\"; }\n\
        } }";
    const PATHS: [&str; 4] = ["/made", "/file", "/at", "/any"];
    in_namespace(&[NGINX], || {
        let of = |server: &str, location: &str| CONF.replace("{server}", server).replace("{location}", location);
        for (conf, lives) in
            [(of("keepalive_time 1s;", ""), [false; 4]), (of("", "keepalive_time 1s;"), [false, false, false, true])]
        {
            let told = both(|is_nginx| connections_of(is_nginx, &conf, PATHS));
            assert_eq!(told[0], told[1]);
            assert_eq!(told[0].0.each_ref().map(|(_, lives, ..)| *lives), lives);
        }
    });
}

/// What became of a connection that is old, by what is asked for then, and the access log.
#[expect(clippy::type_complexity, reason = "what is compared, and named nowhere")]
fn connections_of(
    is_nginx: bool,
    conf: &str,
    paths: [&'static str; 4],
) -> ([(Option<u16>, bool, bool, Vec<u8>); 4], Vec<String>) {
    let server = Server::start(is_nginx, "connections", conf);
    fs::write(server.folder.join("www/file"), "a file").unwrap();
    // What is asked for twice is ready the third time.
    assert_eq!(paths.repeat(2).into_iter().map(get).collect::<Vec<_>>(), [Some(200); 8]);
    let mut connections = paths.map(|path| (path, Connection::open(ADDRESS)));
    for (path, connection) in &mut connections {
        let status = ask(connection, "/any").status();
        assert_eq!(status, Some(200), "{path}");
    }
    std::thread::sleep(Duration::from_millis(1_300));
    let last = connections.each_mut().map(|(path, connection)| {
        let answer = ask(connection, path);
        (answer.status(), answer.lives, answer.field("connection").map(str::to_owned), answer.body)
    });
    let log = || server.text("access.log").lines().map(str::to_owned).collect::<Vec<_>>();
    wait_for("the log", || log().len() == 16);
    let mut log = log();
    log.sort();
    server.running.stop();
    (last.map(|(status, lives, field, body)| (status, lives, lives || field.is_some(), body)), log)
}

fn ask(connection: &mut Connection, path: &str) -> Answer {
    connection.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), b"GET")
}

/// Unix sockets with servers of their own: who answers there, what the sockets are, and
/// that a reload keeps them and the end removes them.
#[test]
fn unix_sockets_have_servers_of_their_own() {
    const CONF: &str = "\
        http { access_log off; default_type text/plain; etag off;\n\
        server { listen 127.0.0.1:80; server_name tcp; root www;\n\
        location = /told { return 200 '$server_name $server_addr $server_port $remote_addr $host'; }\n\
        }\n\
        server { listen unix:{folder}/one; listen unix:{folder}/two; server_name first; root www;\n\
        add_header X-Server $server_name always;\n\
        location = /told { return 200 '$server_name $server_addr $server_port $remote_addr $host'; }\n\
        location = /moved { return 301 /elsewhere; }\n\
        }\n\
        server { listen unix:{folder}/two default_server; server_name second; root www;\n\
        add_header X-Server $server_name always; client_max_body_size 1;\n\
        location = /told { return 200 '$server_name $server_addr $server_port $remote_addr $host'; }\n\
        }\n\
        server { listen unix:{folder}/three proxy_protocol; server_name third;\n\
        add_header X-Server $server_name always;\n\
        location / { return 200 '$server_name $server_addr $proxy_protocol_addr'; }\n\
        } }";
    in_namespace(&[NGINX], || {
        let told = both(|is_nginx| {
            let server = Server::start(is_nginx, "unix", CONF);
            fs::write(server.folder.join("www/file"), "a file\n").unwrap();
            set_time(&server.folder.join("www/file"));
            let mut told = Vec::new();
            for round in 0..3 {
                for name in ["one", "two"] {
                    for host in ["first", "second", "tcp", "other"] {
                        for asked in ["GET /told", "GET /file", "GET /missing", "HEAD /moved", "POST /told"] {
                            let body = if asked.starts_with("POST") { "Content-Length: 2\r\n" } else { "" };
                            let request =
                                format!("{asked} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{body}\r\n");
                            let body = if body.is_empty() { "" } else { "xy" };
                            let answer = ask_unix(&server.folder.join(name), &(request + body));
                            told.push(format!("{name} {host} {asked}: {answer}"));
                        }
                    }
                }
                let header = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n";
                let request = format!("{header}GET / HTTP/1.1\r\nHost: third\r\nConnection: close\r\n\r\n");
                told.push(ask_unix(&server.folder.join("three"), &request));
                if round == 0 {
                    server.reload(CONF);
                }
            }
            let folder = server.folder.clone();
            let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode();
            told.push(format!("{:?}", ["one", "two", "three"].map(mode)));
            server.running.stop();
            told.push(format!("{:?}", ["one", "two", "three"].map(|name| folder.join(name).exists())));
            let folder = folder.to_str().unwrap();
            told.into_iter().map(|line| line.replace(folder, "")).collect::<Vec<_>>()
        });
        for (nginx, ours) in told[0].iter().zip(&told[1]) {
            assert_eq!(nginx, ours);
        }
        assert!(told[0].iter().any(|line| line.contains("second unix:/two  unix: other")), "{:?}", told[0]);
    });
}

fn set_time(path: &std::path::Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
}

/// What a Unix socket answers, but for its time, names of servers, and pages of errors.
fn ask_unix(path: &std::path::Path, request: &str) -> String {
    // It is a file before anybody listens there.
    let mut connected = None;
    wait_for("who listens", || {
        connected = UnixStream::connect(path).ok();
        connected.is_some()
    });
    let mut stream = connected.unwrap_or_else(|| panic!("{}", path.display()));
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
    let is_page = body.contains("<html>");
    // One folder's name is longer than the other's.
    let is_apart = status != "200" || body.contains(" unix:/");
    let is_told = |line: &&str| !line.starts_with("Date:") && !line.starts_with("Server:");
    let mut fields: Vec<&str> = lines
        .filter(is_told)
        .filter(|line| status != "301" && !(is_apart && line.starts_with("Content-Length")))
        .collect();
    fields.sort_unstable();
    format!("{status} {} {}", fields.join(" "), if is_page { "" } else { body })
}

/// What a reload says of an address that is listened on still.
#[test]
fn options_of_listen_change_at_a_reload() {
    const OPTIONS: [&str; 4] = [
        "backlog=100 rcvbuf=32k sndbuf=64k so_keepalive=30m:10:5 deferred",
        "backlog=200 rcvbuf=64k sndbuf=32k so_keepalive=off",
        "backlog=300 so_keepalive=:20 deferred",
        // What is not said any more stays, but for the deferring.
        "backlog=400",
    ];
    // As `listening` tells them; the kernel doubles what buffers are asked for (socket(7)).
    const SEEN: [[u32; 8]; 4] = [
        [100, 1, 65_536, 131_072, 1, 1_800, 10, 5],
        [200, 0, 131_072, 65_536, 0, 1_800, 10, 5],
        [300, 1, 131_072, 65_536, 1, 1_800, 20, 5],
        [400, 0, 131_072, 65_536, 1, 1_800, 20, 5],
    ];
    in_namespace(&[NGINX], || {
        both(|is_nginx| {
            let conf = |options: &str| {
                format!("http {{ access_log off; server {{ listen {ADDRESS} {options}; root www; }} }}")
            };
            let server = Server::start(is_nginx, "listen", &conf(OPTIONS[0]));
            for (options, wanted) in OPTIONS.iter().zip(SEEN) {
                server.reload(&conf(options));
                // One option follows the other.
                let mut seen = None;
                wait_for(&format!("{wanted:?}"), || {
                    seen = with_children(server.running.id()).into_iter().find_map(listening);
                    seen == Some(wanted)
                });
                assert_eq!(get("/"), Some(403));
            }
            server.running.stop();
        });
    });
}

/// A server, and the processes that it has started: any of them may have its sockets.
fn with_children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    core::iter::once(pid).chain(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok())).collect()
}

/// Of the socket that a process listens on: how many may wait, whether it is deferred,
/// its buffers, and its keep-alive with three times.
fn listening(pid: u32) -> Option<[u32; 8]> {
    let told = output(Command::new("ss").args(["-Hltn", "src", ADDRESS]));
    let backlog = told.split_whitespace().nth(2)?.parse().ok()?;
    let process = rustix::process::Pid::from_raw(pid.cast_signed())?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let Ok(fd) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
        let is = rustix::net::getsockname(&fd).ok().and_then(|at| std::net::SocketAddr::try_from(at).ok());
        if is != ADDRESS.parse().ok() || !sockopt::socket_acceptconn(&fd).unwrap_or(false) {
            continue;
        }
        let seconds = |time: rustix::io::Result<Duration>| time.map_or(u32::MAX, |time| time.as_secs() as u32);
        return Some([
            backlog,
            u32::from(is_deferred(&fd)),
            sockopt::socket_recv_buffer_size(&fd).ok()? as u32,
            sockopt::socket_send_buffer_size(&fd).ok()? as u32,
            u32::from(sockopt::socket_keepalive(&fd).ok()?),
            seconds(sockopt::tcp_keepidle(&fd)),
            seconds(sockopt::tcp_keepintvl(&fd)),
            sockopt::tcp_keepcnt(&fd).ok()?,
        ]);
    }
    None
}

fn is_deferred(fd: &OwnedFd) -> bool {
    let (mut seconds, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: both are this function's own, and as long as they say.
    let read = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw mut seconds).cast(),
            &raw mut length,
        )
    };
    assert_eq!(read, 0);
    seconds > 0
}

/// Bodies of requests that a disk has no room for: an error for each, nothing is left of
/// them, and what needs no room is served.
#[test]
fn a_full_folder_for_bodies_fails_their_requests_alone() {
    const CONF: &str = "\
        http { access_log off; client_body_temp_path {folder}/temp; client_body_buffer_size 8k;\n\
        server { listen 127.0.0.1:80; client_max_body_size 0;\n\
        location / { proxy_pass http://127.0.0.1:8080; error_log error.log; }\n\
        }\n\
        server { listen 127.0.0.1:8080; client_max_body_size 0; return 200 told; } }";
    in_namespace(&[NGINX], || {
        // SAFETY: takes flags by value and moves only this thread.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        mount(None, "/", libc::MS_REC | libc::MS_PRIVATE, "");
        let told = both(|is_nginx| {
            let folder = Server::folder(is_nginx, "full");
            let temp = folder.join("temp");
            fs::create_dir(&temp).unwrap();
            mount(Some("tmpfs"), temp.to_str().unwrap(), 0, "size=256k");
            let server = Server::start_in(is_nginx, folder, CONF);
            // A file goes with its request, or soon after it, and gives its room back when
            // it is closed.
            let free = || rustix::fs::statvfs(&temp).unwrap().f_bfree;
            let all = free();
            let empty = || free() == all && fs::read_dir(&temp).unwrap().next().is_none();
            let statuses = [4_000, 1 << 20, 100, 100_000, 1 << 20, 1 << 20, 200_000].map(|length| {
                wait_for("an empty folder", empty);
                post(length)
            });
            let lines = || server.text("error.log").matches("(28: No space left on device)").count();
            wait_for("lines about it", || lines() == 3);
            wait_for("an empty folder", empty);
            server.running.stop();
            statuses
        });
        assert_eq!(told[0], told[1]);
        assert_eq!(told[1], [200, 500, 200, 200, 500, 500, 200].map(Some));
    });
}

fn mount(what: Option<&str>, at: &str, flags: libc::c_ulong, options: &str) {
    let text = |text: &str| CString::new(text).unwrap();
    let (source, kind, at, options) = (text("none"), what.map(text), text(at), text(options));
    // SAFETY: all are texts that outlive the call; none of the kind is taken for changes of flags.
    let mounted = unsafe {
        let kind = kind.as_ref().map_or(core::ptr::null(), |kind| kind.as_ptr());
        libc::mount(source.as_ptr(), at.as_ptr(), kind, flags, options.as_ptr().cast())
    };
    assert_eq!(mounted, 0, "{at:?}: {}", std::io::Error::last_os_error());
}

/// The status of what a body of so many bytes is answered with.
fn post(length: usize) -> Option<u16> {
    let mut stream = TcpStream::connect(ADDRESS).unwrap();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // Who refuses it need not read it to its end.
    let _ = stream.write_all(&vec![b'x'; length]);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}

/// The text with an N for each number.
fn without_numbers(text: &str) -> String {
    let mut shown = String::new();
    let mut within = false;
    for each in text.chars() {
        if !each.is_ascii_digit() {
            shown.push(each);
        } else if !within {
            shown.push('N');
        }
        within = each.is_ascii_digit();
    }
    shown
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
    Some(format!("{priority}>{tag}: {}", without_numbers(line)))
}
