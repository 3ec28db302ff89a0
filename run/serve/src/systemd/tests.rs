use super::*;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};

#[test]
fn a_socket_says_what_it_listens_on() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(listens_on(&tcp).unwrap(), Endpoint::Tcp(tcp.local_addr().unwrap()));
    let name = format!("nearside-test-{}", std::process::id());
    let unix = UnixListener::bind_addr(&UnixAddr::from_abstract_name(&name).unwrap()).unwrap();
    assert_eq!(listens_on(&unix).unwrap(), Endpoint::Unix(format!("@{name}").into()));
    let path = std::env::temp_dir().join(&name);
    let unix = UnixListener::bind(&path).unwrap();
    assert_eq!(listens_on(&unix).unwrap(), Endpoint::Unix(path.clone()));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_status_is_one_line_cut_between_letters() {
    assert_eq!(line("short"), "short");
    assert_eq!(line("a\nMAINPID=1\r\n\tb"), "a MAINPID=1   b");
    let long = "ö".repeat(STATUS_MAX);
    assert_eq!(line(&long).len(), STATUS_MAX);
    assert!(line(&format!("x{long}")).len() < STATUS_MAX);
}

#[test]
fn what_does_not_listen_is_refused_with_what_to_change() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
    assert!(listens_on(&stream).unwrap_err().contains("Accept=no"));
    assert!(listens_on(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap_err().contains("ListenStream="));
    assert!(listens_on(std::fs::File::open("/dev/null").unwrap()).unwrap_err().contains("cannot be used"));
}
