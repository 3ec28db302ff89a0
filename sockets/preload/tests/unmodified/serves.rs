//! One worker at a time: files, slow readers, reloads, other servers that it asks.

use crate::server::{CURL, LARGE, NGINX, Over, Server, get, is_followed, send, worker};
use interop::{in_namespace, output, scratch, wait_for};
use rustix::process::Signal;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub fn nginx_serves_as_it_is(over: Over) {
    in_namespace(&[NGINX, CURL], move || {
        let mut server = Server::start(over, "serves");
        assert_eq!(get(&["/small", "/small"]), "a small file\na small file\n");
        assert_eq!(get(&["/whole"]), "10.9.0.1:10.9.0.2:80");
        assert_eq!(get(&[":81/whole"]), "::ffff:10.9.0.1:::ffff:10.9.0.2:81");
        let got = Command::new("curl").args(["-sS", "http://10.9.0.2/large"]).output().unwrap().stdout;
        assert!(got == fs::read(server.folder.join("html/large")).unwrap(), "{} of {LARGE} bytes", got.len());
        // Many at once, each with many requests.
        let clients: Vec<_> = (0..20).map(|_| std::thread::spawn(|| get(&["/small"; 50]))).collect();
        for client in clients {
            assert_eq!(client.join().unwrap(), "a small file\n".repeat(50));
        }
        server.command("quit");
        server.ended();
        let log = fs::read_to_string(server.folder.join("access")).unwrap();
        assert_eq!(log.lines().filter(|line| line.contains("GET /small") && line.contains(" 200 13 ")).count(), 1_002);
    });
}

/// A client that reads at leisure holds nobody up, and gets all.
pub fn a_slow_reader_gets_all(over: Over) {
    in_namespace(&[NGINX, CURL], move || {
        let server = Server::start(over, "slow");
        let mut slow = TcpStream::connect("10.9.0.2:80").unwrap();
        slow.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(get(&["/small"]), "a small file\n");
        let mut got = Vec::new();
        slow.read_to_end(&mut got).unwrap();
        let body = got.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        assert!(got[body..] == fs::read(server.folder.join("html/large")).unwrap());
    });
}

/// A service manager hears when clients are served, not before; and when the program has ended.
pub fn a_service_manager_is_told(over: Over) {
    in_namespace(&[NGINX, CURL], move || {
        let folder = scratch("run-manager");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("notify");
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let told = || {
            let mut message = [0; 4_096];
            let len = socket.recv(&mut message).expect("a message");
            String::from_utf8_lossy(&message[..len]).into_owned()
        };
        let mut server = Server::start_as_service(over, "manager", &path);
        let ready = told();
        assert!(ready.starts_with("READY=1\n"), "{ready}");
        // Workers that follow are no news.
        let old = worker();
        server.command("reload");
        wait_for("another worker", || is_followed(old));
        server.command("quit");
        let stopping = told();
        assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
        server.ended();
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 1]).is_err(), "each is said once");
    });
}

/// With `aio threads` nginx calls sendfile(2) in threads of its own.
pub fn files_are_sent_by_threads(over: Over) {
    in_namespace(&[NGINX, CURL], move || {
        let mut server = Server::start(over, "threads");
        let configuration = server.folder.join("nginx.conf");
        let text = fs::read_to_string(&configuration).unwrap();
        fs::write(&configuration, text.replace("sendfile on;", "sendfile on; aio threads;")).unwrap();
        let old = worker();
        server.command("reload");
        wait_for("the old worker's end", || !Path::new(&format!("/proc/{old}/exe")).exists());
        let wanted = fs::read(server.folder.join("html/large")).unwrap();
        let fetch = |leisure: Duration| {
            let mut client = TcpStream::connect("10.9.0.2:80").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            client.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
            std::thread::sleep(leisure);
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            let body = got.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            got.split_off(body)
        };
        std::thread::scope(|scope| {
            // Some take nothing for a while: there is no room, and then there is.
            let clients: Vec<_> =
                (0..8).map(|number| scope.spawn(move || fetch(Duration::from_millis(60) * number))).collect();
            for client in clients {
                let got = client.join().unwrap();
                assert!(got == wanted, "{} of {LARGE} bytes", got.len());
            }
        });
        assert_eq!(get(&["/small"]), "a small file\n");
        let told = fs::read_to_string(server.folder.join("error")).unwrap_or_default();
        assert!(!told.contains("sendfile"), "{told}");
        // It does not wait for threads that wait for it.
        server.command("quit");
        server.ended();
    });
}

pub fn a_worker_that_is_killed_is_replaced(over: Over) {
    in_namespace(&[NGINX, CURL], move || {
        let _server = Server::start(over, "killed");
        for _ in 0..5 {
            let killed = worker();
            // Clients that wait for nothing hear of it as well.
            let mut idle: Vec<_> = (0..20).map(|_| TcpStream::connect("10.9.0.2:80").unwrap()).collect();
            assert_eq!(worker(), killed, "all are its");
            send(killed, Signal::KILL);
            for client in &mut idle {
                client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let failed = client.read(&mut [0]).expect_err("it is reset");
                assert_eq!(failed.kind(), ErrorKind::ConnectionReset, "{failed}");
            }
            wait_for("another worker", || {
                let asked = Command::new("curl").args(["-s", "--max-time", "5", "http://10.9.0.2/pid"]).output();
                let answer = String::from_utf8(asked.unwrap().stdout).unwrap();
                answer.parse().is_ok_and(|pid: i32| pid != killed)
            });
        }
    });
}

pub fn nginx_reloads_and_changes_its_binary(over: Over) {
    in_namespace(&[NGINX, CURL], move || {
        let mut server = Server::start(over, "reload");
        for _ in 0..5 {
            let old = worker();
            server.command("reload");
            wait_for("a worker of the new configuration", || is_followed(old));
        }
        let (old_master, old_worker) = (server.master().unwrap(), worker());
        server.signal(Signal::USR2);
        wait_for("a master of the new binary", || server.master().is_some_and(|master| master != old_master));
        send(old_master, Signal::WINCH);
        wait_for("a worker of the new binary", || is_followed(old_worker));
        send(old_master, Signal::QUIT);
        wait_for("the old master's end", || !Path::new(&format!("/proc/{old_master}")).exists());
        assert_eq!(get(&["/small"]), "a small file\n");
        server.command("stop");
        server.ended();
    });
}

/// The program's port is nobody else's, and the kernel's clients hear that nobody answers there.
pub fn the_kernel_has_the_port_and_nobody_behind_it(over: Over) {
    in_namespace(&[NGINX, CURL], move || {
        let mut server = Server::start(over, "port");
        assert_eq!(TcpListener::bind("0.0.0.0:80").unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
        for _ in 0..3 {
            let mut client = TcpStream::connect("10.9.0.1:80").unwrap();
            let failed = client.read(&mut [0]).unwrap_err();
            assert_eq!(failed.kind(), std::io::ErrorKind::ConnectionReset);
        }
        server.command("stop");
        server.ended();
        TcpListener::bind("0.0.0.0:80").expect("it is free");
    });
}

/// An nginx that asks another server on the link, and one on loopback.
pub fn nginx_passes_requests_on(over: Over) {
    in_namespace(&[NGINX, CURL], move || {
        let server = Server::start(over, "proxy");
        let configuration = server.folder.join("nginx.conf");
        let text = fs::read_to_string(&configuration).unwrap();
        let passing = "location = /far { proxy_pass http://10.9.0.1:8001; } location = /near { proxy_pass http://127.0.0.1:8002; }";
        fs::write(&configuration, text.replace("location = /pid", &format!("{passing} location = /pid"))).unwrap();
        let old = worker();
        server.command("reload");
        // Until it has heard of it, the old one accepts as well.
        wait_for("the old worker's end", || !Path::new(&format!("/proc/{old}/exe")).exists());
        wait_for("a worker of the new configuration", || is_followed(old));
        for (address, path) in [("10.9.0.1:8001", "/far"), ("127.0.0.1:8002", "/near")] {
            let listener = TcpListener::bind(address).unwrap();
            let upstream = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let len = stream.read(&mut request).unwrap();
                assert!(request[..len].starts_with(b"GET "));
                stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nfrom upstream").unwrap();
            });
            assert_eq!(get(&[path]), "from upstream");
            upstream.join().unwrap();
            // Nobody is there any more.
            let mut curl = Command::new("curl");
            curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}"]).arg(format!("http://10.9.0.2{path}"));
            assert_eq!(output(&mut curl), "502");
        }
    });
}
