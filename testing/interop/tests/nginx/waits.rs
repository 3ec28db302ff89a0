//! A disk that hangs while a server is started, told something or tested: whoever waits says for which path, and a
//! command ends.

use crate::operators::Server;
use interop::fuse::{Fate, Fuse};
use interop::{Nearside, Running, in_namespace, leave_out, scratch, wait_for};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder, and below it a file system of our own with a certificate, its key and a log.
fn mounted(test: &str) -> (PathBuf, Fuse) {
    let folder = scratch("nginx-waits").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("disk")).unwrap();
    std::fs::create_dir_all(folder.join("www")).unwrap();
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=a"];
    let made = Command::new("openssl").args(words).args(["-keyout", &at("key"), "-out", &at("cert")]).output();
    let made = made.unwrap_or_else(|why| leave_out(format!("no openssl: {why}")));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let [cert, key] = ["cert", "key"].map(|name| std::fs::read(folder.join(name)).unwrap());
    let mounted = Fuse::mount(&folder.join("disk"), &[("cert", &cert), ("key", &key), ("log", b"")]);
    let fuse = mounted.unwrap_or_else(|why| leave_out(format!("no file system of our own: {why}")));
    (folder, fuse)
}

/// What `nginx` with these words says and how it ends, where it ends.
fn command(server: &Path, words: &[&str]) -> Output {
    let mut command = Nearside::command(["nginx"]);
    command.arg("-p").arg(server).arg("-c").arg(server.join("nginx.conf")).args(["-e", "default.log"]).args(words);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Of who opens for a server without rights, and of one that has kept them.
#[test]
fn a_reload_says_which_path_it_waits_for() {
    in_namespace(&[], || {
        for user in ["root", "nobody"] {
            let (folder, fuse) = mounted(&format!("reload-{user}"));
            let conf = |log: &str| {
                format!(
                    "user {user}; error_log error.log;\n\
                     http {{ access_log {log}; server {{ listen 127.0.0.1:80; return 200 well; }} }}"
                )
            };
            let log = folder.join("disk/log");
            let server = Server::start(false, &format!("waits-reload-{user}"), &conf("access.log"));
            wait_for("a process id", || !server.text("pid").is_empty());
            server.write(&conf(log.to_str().unwrap()));
            fuse.set("log", Fate::Hangs);
            let told = command(&server.folder, &["-s", "reload"]);
            let text = said(&told);
            assert!(
                !told.status.success() && text.contains("no answer to the reload within 10 s, it goes on"),
                "{text}"
            );
            assert!(text.contains(server.folder.join("error.log").to_str().unwrap()), "{text}");
            let waits = format!("[error] the reload waits for {}: ", log.display());
            let line = |part: &str| server.text("error.log").lines().any(|line| without_process(line).contains(part));
            wait_for("a line of what is waited for", || line(&waits));
            fuse.set("log", Fate::Answered);
            // The file system is read only.
            wait_for("the end of it", || line(&format!("the reload waits for {} no more", log.display())));
            server.running.stop();
        }
    });
}

/// A line of an error log without the number of who wrote it.
fn without_process(line: &str) -> String {
    let (head, rest) = line.split_once("] ").unwrap_or_default();
    let text = rest.split_once(": ").unwrap_or_default().1;
    format!("{}] {text}", head.split_once('[').map_or(head.to_owned(), |(_, level)| format!("[{level}")))
}

#[test]
fn a_command_ends_where_a_certificate_is_waited_for() {
    in_namespace(&[], || {
        let (folder, fuse) = mounted("command");
        let (cert, key) = (folder.join("disk/cert"), folder.join("disk/key"));
        let conf = format!(
            "error_log error.log; http {{ access_log off; server {{ listen 127.0.0.1:80; return 200 well; }}\n\
             server {{ listen 127.0.0.1:443 ssl; ssl_certificate {}; ssl_certificate_key {}; }} }}",
            cert.display(),
            key.display()
        );
        let mut server = Server::start(false, "waits-command", &conf);
        wait_for("a process id", || !server.text("pid").is_empty());
        let good = command(&server.folder, &["-t"]);
        assert!(good.status.success() && said(&good).contains("test is successful"), "{}", said(&good));
        fuse.set("cert", Fate::Hangs);
        let given_up = format!("[emerg] {}: its file system has not answered for 10 s: given up", cert.display());
        for words in [&["-t"][..], &["-s", "reload"], &["-s", "stop"]] {
            let told = command(&server.folder, words);
            let text = said(&told);
            assert!(!told.status.success() && text.contains(&given_up), "{words:?}: {text}");
            assert_eq!(text.contains("test failed"), words == ["-t"], "{text}");
        }
        assert!(!server.running.has_ended());
        fuse.set("cert", Fate::Answered);
        let told = command(&server.folder, &["-s", "reload"]);
        assert!(told.status.success(), "{}", said(&told));
        server.running.stop();
    });
}

/// At the terminal and in the error log, of what is opened before and after rights are given up, and in the background.
#[test]
fn a_start_says_which_path_it_waits_for() {
    in_namespace(&[], || {
        let (folder, fuse) = mounted("start");
        let path = |name: &str| folder.join("disk").join(name).display().to_string();
        for (case, user, daemon, file) in [
            (0, "root", "off", "log"),
            (1, "nobody", "off", "log"),
            (2, "nobody", "on", "log"),
            (3, "root", "off", "cert"),
        ] {
            let own = folder.join(format!("start-{case}"));
            std::fs::create_dir_all(&own).unwrap();
            let conf = format!(
                "user {user}; worker_processes 1; daemon {daemon}; pid pid; events {{}} error_log error.log;\n\
                 http {{ access_log {}; server {{ listen 127.0.0.1:80; return 200 well; }}\n\
                 server {{ listen 127.0.0.1:443 ssl; ssl_certificate {}; ssl_certificate_key {}; }} }}",
                if file == "log" { path("log") } else { "access.log".to_owned() },
                path("cert"),
                path("key"),
            );
            std::fs::write(own.join("nginx.conf"), conf).unwrap();
            fuse.set(file, Fate::Hangs);
            let mut start = Nearside::command(["nginx"]);
            start.arg("-p").arg(&own).arg("-c").arg(own.join("nginx.conf"));
            let mut running = Running::start(&mut start);
            let waits = format!("[error] the start waits for {}: its file system has not answered", path(file));
            wait_for("a line at the terminal", || running.said().contains(&waits));
            let log = || std::fs::read_to_string(own.join("error.log")).unwrap_or_default();
            if file == "log" {
                wait_for("a line in the error log", || {
                    log().lines().any(|line| without_process(line).contains(&waits))
                });
            }
            fuse.set(file, Fate::Answered);
            if file == "log" {
                // The file system is read only.
                wait_for("the end of it", || running.has_ended());
                assert_eq!(running.ended_well(), Some(false), "{}", running.said());
            } else {
                running.wait_until_open("127.0.0.1:80");
                running.stop();
            }
        }
    });
}
