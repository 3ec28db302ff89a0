//! A server that root starts and that serves as nobody, with the rights that are left: it
//! passes requests on to php-fpm over a Unix socket and over TCP as nginx does, and says as
//! nginx does what it may not.

use crate::answer::{Answer, Connection};
use crate::operators::{Server, both};
use crate::{NGINX, programs};
use interop::{Nearside, in_namespace, scratch, wait_for};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

const ADDRESS: &str = "127.0.0.1:80";

const CONF: &str = "\
    user nobody nogroup; error_log error.log;\n\
    http { access_log off; client_body_buffer_size 8k; client_max_body_size 4m; proxy_connect_timeout 2s;\n\
    server { listen 127.0.0.1:80; root {www};\n\
    fastcgi_param SCRIPT_FILENAME {www}/told.php; fastcgi_param REQUEST_METHOD $request_method;\n\
    fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param CONTENT_TYPE $content_type;\n\
    fastcgi_param REQUEST_URI $request_uri;\n\
    location /file.txt { }\n\
    location /hidden.txt { }\n\
    location /unix/ { fastcgi_pass unix:{side}/php.sock; fastcgi_keep_conn on; }\n\
    location /tcp/ { fastcgi_pass 127.0.0.1:9004; }\n\
    location /denied/ { fastcgi_pass unix:{side}/denied.sock; }\n\
    location /missing/ { fastcgi_pass unix:{side}/missing.sock; }\n\
    location /deaf/ { proxy_pass http://unix:{side}/deaf.sock:/; }\n\
    location /closed/ { proxy_pass http://127.0.0.1:9999; }\n\
    } }";

fn ask(path: &str, body: &[u8]) -> Answer {
    let method = if body.is_empty() { "GET" } else { "POST" };
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    Connection::open(ADDRESS).ask(&[head.as_bytes(), body].concat(), method.as_bytes())
}

/// Lines of an error log: how severe, and what.
pub(crate) fn lines(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let (level, rest) = line.split_once(" [")?.1.split_once("] ")?;
        Some(format!("{level} {}", rest.split_once(": *")?.1.split_once(' ')?.1))
    };
    text.lines().filter_map(line).collect()
}

/// The rights of the processes below one, itself included, that serve as nobody: those that
/// the kernel tells.
fn rights(pid: u32) -> Vec<String> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let all = children.split_whitespace().filter_map(|child| child.parse().ok()).chain([pid]);
    let status = |pid: u32| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let is_nobody = |status: &String| status.contains("\nUid:\t65534\t65534\t65534\t65534\n");
    let told = ["CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:"];
    let rights = |status: String| {
        status
            .lines()
            .filter(|line| told.iter().any(|one| line.starts_with(one)))
            .fold(String::new(), |all, line| all + line + " ")
    };
    all.map(status).filter(is_nobody).map(rights).collect()
}

#[test]
fn programs_are_asked_by_a_process_without_rights() {
    in_namespace(&[vec![NGINX], programs::needed("wordpress")].concat(), || {
        let side = scratch("nginx-confined");
        let www = side.join("www");
        fs::create_dir_all(&www).unwrap();
        let script = "<?php header('X-Method: ' . $_SERVER['REQUEST_METHOD']); echo $_SERVER['REQUEST_URI'], ' ', \
                      md5(file_get_contents('php://input')), str_repeat(' more', strlen($_SERVER['REQUEST_URI']) * 2000);";
        fs::write(www.join("told.php"), script).unwrap();
        fs::write(www.join("file.txt"), "a file\n").unwrap();
        fs::write(www.join("hidden.txt"), "root's\n").unwrap();
        fs::set_permissions(www.join("hidden.txt"), fs::Permissions::from_mode(0o600)).unwrap();
        for name in ["php.sock", "denied.sock", "deaf.sock", "missing.sock"] {
            let _ = fs::remove_file(side.join(name));
        }
        let socket = side.join("php.sock");
        let php = programs::php_pools("confined", &[socket.to_str().unwrap(), "0.0.0.0:9004"]);
        let denied = UnixListener::bind(side.join("denied.sock")).unwrap();
        fs::set_permissions(side.join("denied.sock"), fs::Permissions::from_mode(0o600)).unwrap();
        // Nobody listens there any more.
        drop(UnixListener::bind(side.join("deaf.sock")).unwrap());
        fs::set_permissions(side.join("deaf.sock"), fs::Permissions::from_mode(0o666)).unwrap();
        let conf = CONF.replace("{www}", www.to_str().unwrap()).replace("{side}", side.to_str().unwrap());
        let long: Vec<u8> = (0..300_000_u32).map(|at| at.to_be_bytes()[2]).collect();
        let asked: Vec<(&str, &[u8])> = vec![
            ("/file.txt", b""),
            ("/hidden.txt", b""),
            ("/unix/a", b""),
            ("/tcp/a", b""),
            ("/unix/short", b"short"),
            ("/tcp/long", &long),
            ("/unix/long", &long),
            ("/denied/", b""),
            ("/missing/", b""),
            ("/deaf/", b""),
            ("/closed/", b""),
            ("/unix/again", b""),
        ];
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "confined", &conf);
            let answers: Vec<_> = asked
                .iter()
                .map(|(path, body)| {
                    let answer = ask(path, body);
                    let is_page = answer.status() != Some(200);
                    let body = if is_page { Vec::new() } else { answer.plain_body() };
                    (*path, answer.status(), answer.field("x-method").map(str::to_owned), body)
                })
                .collect();
            wait_for("the error log", || lines(&server.text("error.log")).len() >= 5);
            let rights = rights(server.running.id());
            let lines = lines(&server.text("error.log"));
            server.running.stop();
            (answers, lines, rights)
        });
        drop((php, denied));
        for (theirs, ours) in seen[0].0.iter().zip(&seen[1].0) {
            assert_eq!(theirs, ours);
        }
        assert_eq!(seen[0].1, seen[1].1);
        assert!(seen[0].1.iter().any(|line| line.starts_with("crit connect() to unix:")), "{:?}", seen[0].1);
        let rights = seen[1].2.join("\n");
        let none = "0000000000000000";
        for told in [&format!("CapEff:\t{none}"), &format!("CapBnd:\t{none}"), "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(rights.contains(told), "{told}: {rights}");
        }
    });
}

/// As where logs are in a folder of the user's: what is opened at the start is what is opened
/// again at a reload, and a link of that user's leads root nowhere (as of CVE-2016-1247).
#[test]
fn access_logs_in_a_folder_of_the_user_are_opened_with_his_rights() {
    in_namespace(&[], || {
        let side = scratch("nginx-confined-logs");
        let _ = fs::remove_dir_all(side.join("logs"));
        fs::create_dir_all(side.join("logs")).unwrap();
        chown(side.join("logs"), Some(65_534), Some(65_534)).unwrap();
        let serve = |log: &str| {
            let conf = format!(
                "user nobody nogroup; pid {0}/pid; error_log {0}/error.log; events {{}}\n\
                 http {{ access_log off; server {{ listen {ADDRESS}; \
                 location /logged {{ access_log {0}/logs/{log}; return 200 a; }} }} }}",
                side.display()
            );
            fs::write(side.join("nginx.conf"), conf).unwrap();
            run(&side, &[])
        };
        // What he may write to is only what he could have written to.
        let secret = side.join("secret");
        fs::write(&secret, "precious").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&secret, side.join("logs/link.log")).unwrap();
        let (started, said) = serve("link.log");
        if started {
            ask("/logged", b"");
            run(&side, &["-s", "stop"]);
        }
        assert!(!started && said.contains("link.log: Permission denied"), "{said}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "precious");

        let (started, said) = serve("plain.log");
        assert!(started, "{said}");
        let answers = run(&side, &["-s", "reload"]);
        run(&side, &["-s", "stop"]);
        assert_eq!(answers, (true, String::new()));
        assert_eq!(fs::metadata(side.join("logs/plain.log")).unwrap().uid(), 65_534);
    });
}

/// Whether our program ended well by nginx's command line, and what it said.
fn run(side: &Path, args: &[&str]) -> (bool, String) {
    let mut command = Nearside::command(["nginx"]);
    let said = side.join("said");
    let file = fs::File::create(&said).unwrap();
    command.arg("-p").arg(side).arg("-c").arg(side.join("nginx.conf")).arg("-e").arg(side.join("error.log"));
    let ended = command.args(args).stderr(file).status().unwrap();
    (ended.success(), fs::read_to_string(said).unwrap())
}
