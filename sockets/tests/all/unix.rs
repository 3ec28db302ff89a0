//! Unix sockets, and their files.

use crate::support::{ask, start_echo};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use sockets::{BindError, Config, Endpoint, ListenOptions, Listeners, Model};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("nearside-{name}-{}.sock", std::process::id()))
}

fn listen(path: &Path, options: &ListenOptions) -> Result<Listeners, BindError> {
    Listeners::bind(&[Endpoint::Unix(path.into())], options, Model::Reuseport, 2)
}

#[test]
fn a_path_is_served_by_all_workers_and_removed_after() {
    let path = path("served");
    let options = ListenOptions { unix_mode: Some(0o640), ..ListenOptions::default() };
    let listeners = listen(&path, &options).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    // SO_REUSEPORT is unknown to them: the queue is shared.
    assert!(listeners.for_worker(0)[0].is_shared() && listeners.for_worker(1)[0].is_shared());
    let running = [0, 1].map(|at| start_echo(Config::default(), listeners.for_worker(at)));
    for _ in 0..10 {
        ask(&mut UnixStream::connect(&path).unwrap(), b"hello");
    }
    let opened: u64 = running.into_iter().map(|worker| worker.stop().0.opened).sum();
    assert_eq!(opened, 10);
    drop(listeners);
    assert!(!path.exists());
}

#[test]
fn a_stale_file_is_no_hindrance_and_a_live_one_is() {
    let path = path("stale");
    // What a server that was killed leaves behind.
    let killed = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&killed, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    drop(killed);
    let first = listen(&path, &ListenOptions::default()).unwrap();
    let error = listen(&path, &ListenOptions::default()).unwrap_err();
    assert!(matches!(error, BindError::InUse(_)), "{error}");
    assert!(path.exists(), "whoever could not have it leaves it alone");
    drop(first);
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_no_socket_stays() {
    let path = path("file");
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(listen(&path, &ListenOptions::default()), Err(BindError::InUse(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();
}

/// After a hand-over the file is the successor's.
#[test]
fn a_file_that_was_handed_on_stays() {
    let path = path("handed");
    let mut first = listen(&path, &ListenOptions::default()).unwrap();
    let fds = first.iter().map(|(_, fd)| fd.try_clone_to_owned().unwrap()).collect();
    let endpoint = Endpoint::Unix(path.clone());
    let second = Listeners::adopt(
        fds,
        sockets::Origin::Predecessor,
        &[endpoint],
        &ListenOptions::default(),
        Model::Exclusive,
        1,
    )
    .unwrap();
    first.disown_files();
    drop(first);
    assert!(path.exists());
    let running = start_echo(Config::default(), second.for_worker(0));
    ask(&mut UnixStream::connect(&path).unwrap(), b"hello");
    running.stop();
    drop(second);
    assert!(!path.exists());
}

#[test]
fn an_abstract_name_has_no_file() {
    let name = format!("nearside-abstract-{}", std::process::id());
    let endpoint: Endpoint = format!("unix:@{name}").parse().unwrap();
    let listeners = Listeners::bind(&[endpoint], &ListenOptions::default(), Model::Epoll, 1).unwrap();
    let running = start_echo(Config::default(), listeners.for_worker(0));
    let address = <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    ask(&mut UnixStream::connect_addr(&address.unwrap()).unwrap(), b"hello");
    running.stop();
}

/// A peer that passes descriptors splits what it sends into several reads.
#[test]
fn data_with_descriptors_holds_nothing_up() {
    let path = path("descriptors");
    let listeners = listen(&path, &ListenOptions::default()).unwrap();
    let running = start_echo(Config::default(), listeners.for_worker(0));
    let stream = UnixStream::connect(&path).unwrap();
    let passed = [std::os::fd::AsFd::as_fd(&stream)];
    let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    for part in [&b"one"[..], b"two"] {
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&passed)));
        let pieces = [std::io::IoSlice::new(part)];
        rustix::net::sendmsg(&stream, &pieces, &mut control, rustix::net::SendFlags::empty()).unwrap();
    }
    let mut back = [0; 6];
    std::io::Read::read_exact(&mut &stream, &mut back).unwrap();
    assert_eq!(&back, b"onetwo");
    running.stop();
}
