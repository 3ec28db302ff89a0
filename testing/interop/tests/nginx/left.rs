//! Clients that leave while an upstream is waited for, with more behind their request, beside
//! nginx: their requests are given up, and what they asked behind is not done.

use crate::NGINX;
use crate::secured::{SIDES, command};
use interop::{Running, in_namespace, scratch, wait_for};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// An answer takes so long.
const LATE: Duration = Duration::from_millis(900);

/// What is sent behind a request.
const BEHIND: [&str; 4] = ["", "\r\n", "GET /behind HTTP/1.1\r\nHost: a\r\n\r\n", "GET /beh"];

fn configuration(address: &str) -> String {
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info; events {{}}\n\
         http {{ log_format asked '$request $status'; access_log logs/access.log asked;\n\
         limit_conn_zone $server_name zone=one:1m;\n\
         server {{ listen {address}:80;\n\
           location /late {{ limit_conn one 1; proxy_pass http://127.0.0.1:9000; }}\n\
           location /stays {{ proxy_ignore_client_abort on; proxy_pass http://127.0.0.1:9000; }}\n\
           location /behind {{ return 200 behind; }} }} }}\n"
    )
}

fn serve(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    thread::sleep(LATE);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlate");
}

fn send(address: &str, target: &str, behind: &str) -> TcpStream {
    let mut stream = TcpStream::connect((address, 80)).unwrap();
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n{behind}").as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(100));
    stream
}

/// What is logged of all of them.
fn logged(name: &str, address: &str, log: &std::path::Path) -> Vec<String> {
    let lines = || {
        let text = fs::read_to_string(log).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    let before = lines().len();
    for (number, behind) in BEHIND.iter().enumerate() {
        // One at a time: the place of who left is free at once.
        drop(send(address, &format!("/late/{number}"), behind));
        wait_for(&format!("a line of {name} about {behind:?}"), || lines().len() > before + number);
    }
    // Who says that this is not to be heard gets all answers.
    let mut stream = send(address, "/stays", BEHIND[2]);
    stream.shutdown(Shutdown::Write).unwrap();
    let mut came = String::new();
    stream.read_to_string(&mut came).unwrap();
    assert!(came.contains("late") && came.ends_with("behind"), "{name}: {came}");
    wait_for("the last lines", || lines().len() >= before + BEHIND.len() + 2);
    lines().split_off(before)
}

#[test]
fn who_leaves_with_more_behind_is_noticed() {
    in_namespace(&[NGINX], || {
        let folder = scratch("nginx-left");
        let _ = fs::remove_dir_all(&folder);
        let listener = TcpListener::bind("127.0.0.1:9000").unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream));
            }
        });
        let mut expected: Vec<String> = (0..BEHIND.len()).map(|at| format!("GET /late/{at} HTTP/1.1 499")).collect();
        expected.extend(["GET /stays HTTP/1.1 200".to_owned(), "GET /behind HTTP/1.1 200".to_owned()]);
        for (name, address) in SIDES {
            let own = folder.join(name);
            fs::create_dir_all(own.join("logs")).unwrap();
            fs::write(own.join("nginx.conf"), configuration(address)).unwrap();
            let mut server = Running::start(&mut command(name, &own));
            server.wait_until_open(&format!("{address}:80"));
            let logged = logged(name, address, &own.join("logs/access.log"));
            server.stop();
            assert_eq!(logged, expected, "{name}");
        }
    });
}
