use super::*;
use rustix::net::send;
use std::fs::File;
use std::net::TcpListener;

/// It is there already, or comes as soon as the other thread may run.
const SOON: Duration = Duration::from_secs(60);

fn pair() -> (Channel, Channel) {
    Channel::pair().expect("a pair")
}

fn offer(endpoint: String) -> Offered {
    Offered { endpoint, managed: false, name: None }
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("nearside-control-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// What is sent as a descriptor is the same open file: a connection that
/// waits in its queue is found there.
#[test]
fn a_listening_socket_arrives_with_its_queue() {
    let (old, new) = pair();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _waiting = std::net::TcpStream::connect(address).unwrap();
    let message = Message::Sockets { offered: vec![offer(address.to_string())], more: false };
    old.send(&message, &[listener.as_fd()]).unwrap();
    drop(listener);
    let mut received = new.wait(SOON).unwrap();
    assert_eq!(received.message, message);
    let taken = TcpListener::from(received.descriptors.pop().unwrap());
    assert!(received.descriptors.is_empty());
    taken.set_nonblocking(true).unwrap();
    taken.accept().expect("the connection is still there");
}

#[test]
fn a_batch_of_the_longest_names_fits() {
    let (old, new) = pair();
    let file = File::open("/dev/null").unwrap();
    // The control characters that JSON writes with six.
    let longest = Offered { endpoint: "\u{1}".repeat(108), managed: true, name: Some("\"".repeat(255)) };
    let message = Message::Sockets { offered: vec![longest; BATCH], more: true };
    old.send(&message, &[file.as_fd(); BATCH]).unwrap();
    let received = new.wait(SOON).unwrap();
    assert_eq!((received.message == message, received.descriptors.len()), (true, BATCH));
    assert!(matches!(old.send(&message, &[file.as_fd(); BATCH + 1]), Err(ChannelError::Nonsense)));
}

#[test]
fn what_is_no_message_is_an_error_and_closes_what_came_with_it() {
    let (old, new) = pair();
    for bytes in [
        &b"x"[..],
        b"{}",
        b"{\"message\":\"format_disk\"}",
        b"{\"message\":\"hello\",\"version\":-1,\"pid\":1}",
        b"{\"message\":\"sockets\",\"offered\":7,\"more\":false}",
        b"\xff\xfe",
        b"[[[[[[[[[[[[[[[[[[[[[[[[",
        &vec![b'['; MESSAGE_MAX],
    ] {
        send(&old.0, bytes, SendFlags::empty()).unwrap();
        assert!(matches!(new.wait(SOON), Err(ChannelError::Nonsense)), "{:?}", &bytes[..bytes.len().min(40)]);
    }
    // Longer than any message, and more descriptors than any has.
    let (end, file) = std::io::pipe().unwrap();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(200))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let many = [file.as_fd(); 200];
    assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
    sendmsg(&old.0, &[IoSlice::new(b"\"x\"")], &mut control, SendFlags::empty()).unwrap();
    assert!(matches!(new.wait(SOON), Err(ChannelError::Nonsense)));
    drop(file);
    // Other tests of this process have descriptors of their own, and a program that
    // one of them starts has ours for a moment: a pipe ends when nobody has its other
    // side.
    rustix::io::ioctl_fionbio(&end, true).unwrap();
    let ended = (0..SOON.as_millis()).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        rustix::io::read(&end, &mut [0]) == Ok(0)
    });
    assert!(ended, "what came was closed");
    old.send(&Message::Refused { why: "busy".into() }, &[]).unwrap();
    assert!(matches!(new.wait(SOON), Err(ChannelError::Refused(why)) if why == "busy"));
    assert!(matches!(new.receive(), Ok(None)));
    assert!(matches!(new.wait(Duration::from_millis(1)), Err(ChannelError::Silent(_))));
    drop(old);
    assert!(matches!(new.wait(SOON), Err(ChannelError::Gone)));
    assert!(matches!(new.send(&Message::Ready, &[]), Err(ChannelError::Gone)));
}

#[test]
fn a_successor_s_socket_takes_the_place_and_keeps_it() {
    let path = scratch("place");
    let first = Listener::bind(&path, false).unwrap();
    let why = Listener::bind(&path, false).unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::AddrInUse);
    let asked = Channel::connect(&path).unwrap();
    // The first was the look whether anybody listens.
    first.accept().unwrap().expect("we may");
    let heard = first.accept().unwrap().expect("we may");
    assert_eq!(heard.peer().unwrap(), std::process::id());
    drop((asked, heard));
    let second = Listener::bind(&path, true).unwrap();
    drop(first);
    Channel::connect(&path).expect("the successor's is still there");
    drop(second);
    assert!(!path.exists());
    // Left behind by one that was killed: nobody listens there.
    let stale = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(stale);
    drop(Listener::bind(&path, false).unwrap());
    std::fs::write(&path, "a file").unwrap();
    assert_eq!(Listener::bind(&path, true).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    std::fs::remove_file(&path).unwrap();
}

/// Who listens at the place of a control socket may be anybody, and never answer.
#[test]
fn a_queue_that_is_full_is_not_waited_for_long() {
    let path = scratch("full");
    let listener = Listener::bind(&path, false).unwrap();
    let mut asking = Vec::new();
    let why = loop {
        assert!(asking.len() < 1_000, "a backlog of {BACKLOG} has room for all");
        match Channel::connect(&path) {
            Ok(channel) => asking.push(channel),
            Err(why) => break why,
        }
    };
    assert_eq!(why.kind(), io::ErrorKind::WouldBlock);
    assert!(is_listened_on(&path), "somebody is there");
    let why = Listener::bind(&path, false).expect_err("it is another's");
    assert_eq!(why.kind(), io::ErrorKind::AddrInUse);
    drop(listener);
    assert!(!is_listened_on(&path));
}

/// To close what was sent may take as long as its sender likes (SO_LINGER of socket(7)).
#[test]
fn who_has_no_descriptors_to_send_is_not_understood_with_some() {
    use crate::ward::FromChild;
    use rustix::net::sockopt::set_socket_linger;
    use std::net::{TcpListener, TcpStream};
    let listens = TcpListener::bind("127.0.0.1:0").unwrap();
    let lingers = TcpStream::connect(listens.local_addr().unwrap()).unwrap();
    let (_deaf, _) = listens.accept().unwrap();
    set_socket_linger(&lingers, Some(Duration::from_secs(30_000))).unwrap();
    lingers.set_nonblocking(true).unwrap();
    // More than goes: to close it waits.
    while io::Write::write(&mut &lingers, &[0; 65_536]).is_ok() {}
    lingers.set_nonblocking(false).unwrap();
    let (ours, theirs) = Channel::pair().unwrap();
    theirs.send(&FromChild::Alive, &[lingers.as_fd()]).unwrap();
    theirs.send(&FromChild::Alive, &[]).unwrap();
    drop(lingers);
    assert!(matches!(ours.hear_words::<FromChild>(), Err(ChannelError::Nonsense)), "and nobody has waited");
    assert_eq!(ours.hear_words::<FromChild>().unwrap(), Some(FromChild::Alive));
    ours.refuse_descriptors();
    let file = std::fs::File::open("/dev/null").unwrap();
    match theirs.send(&FromChild::Alive, &[file.as_fd()]) {
        // Linux 6.16.
        Err(why) => assert!(matches!(why, ChannelError::Io(_)), "{why}"),
        Ok(()) => assert!(ours.hear_words::<FromChild>().is_err()),
    }
}
