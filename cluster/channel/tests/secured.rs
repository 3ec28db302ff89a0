//! Connections between workers and controllers over loopback, and strangers at either end and between.

use channel::{Channel, ControllerKey, Keys};
use messages::Token;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

fn keys(token: u128) -> Keys {
    Keys::of(&Token::new(token)).expect("keys")
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    (near, listener.accept().expect("it came").0)
}

/// Reads at the controller's end until there are so many bytes, or it ends; then why it ended, if for a reason.
fn read(channel: &Channel, most: usize) -> (Vec<u8>, Option<std::io::ErrorKind>) {
    let (mut bytes, mut opened) = ([0; 4_096], Vec::new());
    while opened.len() < most {
        match channel.receive(&mut bytes) {
            Ok(0) => break,
            Ok(received) => {
                if let Err(why) = channel.open(&bytes[..received], &mut opened) {
                    return (opened, Some(why.kind()));
                }
            }
            Err(why) => return (opened, Some(why.kind())),
        }
    }
    (opened, None)
}

#[test]
fn who_has_the_token_is_understood_both_ways_and_long_lines_come_whole() {
    let (near, far) = pair();
    let line: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
    let sent = line.clone();
    let worker = thread::spawn(move || {
        let channel = Arc::new(Channel::connect(near, &keys(7)).expect("it knows the token"));
        let writer = Arc::clone(&channel);
        // One writes while the other reads.
        let writes = thread::spawn(move || writer.write(&sent));
        let (answer, _) = read(&channel, 6);
        writes.join().expect("no panic").expect("it is taken");
        answer
    });
    let channel = Channel::accept(far, &keys(7)).expect("a connection");
    let (first, _) = read(&channel, 1);
    channel.write(b"answer").expect("it is taken");
    let (rest, why) = read(&channel, line.len() - first.len());
    assert!([first, rest].concat() == line, "{why:?}");
    assert_eq!(worker.join().expect("no panic"), b"answer");
}

#[test]
fn who_has_the_controllers_public_key_alone_takes_it_and_no_other_and_could_not_be_it() {
    let text = keys(7).controller_key().text();
    let key = ControllerKey::read(&text).expect("a key");
    assert_eq!((key.text(), text.len()), (text.clone(), 64));
    for (token, is_taken) in [(7, true), (8, false)] {
        let (near, far) = pair();
        let key = key.clone();
        let worker = thread::spawn(move || Channel::connect(near, &key).map(|way| way.write(b"hello")));
        let channel = Channel::accept(far, &keys(token)).expect("a connection");
        let (said, _) = read(&channel, 5);
        assert_eq!(said == b"hello", is_taken, "{said:?}");
        channel.shutdown();
        assert_eq!(worker.join().expect("no panic").is_ok(), is_taken);
    }
    for text in ["", &text[1..], &text.replace(char::is_numeric, "g"), &format!("+{}", &text[1..])] {
        assert!(ControllerKey::read(text).is_err(), "{text}");
    }
    assert_eq!(format!("{key:?}"), "ControllerKey");
}

#[test]
fn a_worker_takes_no_other_controller_and_says_nothing_to_it() {
    let (near, far) = pair();
    let controller = thread::spawn(move || read(&Channel::accept(far, &keys(8)).expect("a connection"), 1));
    let why = Channel::connect(near, &keys(7)).expect_err("it has another token");
    assert!(why.to_string().contains("certificate"), "{why}");
    let (heard, why) = controller.join().expect("no panic");
    assert!(heard.is_empty() && why.is_some(), "{heard:?} {why:?}");
    // One that says nothing, and one that ends.
    let (near, far) = pair();
    far.shutdown(Shutdown::Both).expect("open");
    Channel::connect(near, &keys(7)).expect_err("nobody is there");
}

#[test]
fn strangers_are_no_workers() {
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"{\"hello\":{}}\n", &[0x16, 3, 1, 0xff, 0xff, 1], &[0; 70_000]] {
        let (mut near, far) = pair();
        let controller = thread::spawn(move || {
            let channel = Channel::accept(far, &keys(7)).expect("a connection");
            let seen = read(&channel, 1);
            channel.shutdown();
            seen
        });
        // It may be closed before all is sent.
        let _ = near.write_all(words);
        let _ = near.shutdown(Shutdown::Write);
        let (heard, why) = controller.join().expect("no panic");
        assert!(heard.is_empty(), "{words:?}: {heard:?} {why:?}");
    }
}

/// Somebody on the way, who changes one byte of what comes after the handshake, or says it again.
#[test]
fn what_is_changed_or_said_again_on_the_way_ends_the_connection() {
    for again in [false, true] {
        let (near, between) = pair();
        let (onward, far) = pair();
        let back = (onward.try_clone().expect("a stream"), between.try_clone().expect("a stream"));
        let copies = thread::spawn(move || copy(back.0, back.1, |_| {}));
        let meddles = thread::spawn(move || {
            copy(between, onward, |bytes| {
                // Not of the handshake: of a record of 1,000 bytes and more.
                if bytes.len() > 1_000 {
                    if again {
                        bytes.extend_from_within(..);
                    } else {
                        let last = bytes.len() - 1;
                        bytes[last] ^= 1;
                    }
                }
            });
        });
        let worker = thread::spawn(move || {
            let channel = Channel::connect(near, &keys(7)).expect("it knows the token");
            channel.write(b"hello\n").expect("it is taken");
            read(&channel, 1);
            channel.write(&[b'x'; 2_000]).expect("it is taken");
            read(&channel, 1).0
        });
        let channel = Channel::accept(far, &keys(7)).expect("a connection");
        assert_eq!(read(&channel, 6).0, b"hello\n");
        channel.write(b"\n").expect("it is taken");
        let (heard, why) = read(&channel, 2_001);
        assert_eq!(why, Some(std::io::ErrorKind::InvalidData), "{}", heard.len());
        assert!(heard.is_empty() || again && heard.len() == 2_000, "each byte once, or not at all: {}", heard.len());
        channel.shutdown();
        assert!(worker.join().expect("no panic").is_empty());
        copies.join().expect("no panic");
        meddles.join().expect("no panic");
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, meddle: impl Fn(&mut Vec<u8>)) {
    let mut bytes = [0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let mut piece = bytes[..read].to_vec();
        meddle(&mut piece);
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[test]
fn keys_belong_to_a_token_and_are_not_printed() {
    assert_eq!(format!("{:?}", keys(7)), "Keys");
}
