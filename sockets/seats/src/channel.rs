//! Messages between a program's processes and the keeper, with descriptors.

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest message: a sentence, or what a link is.
const LONGEST: usize = 4096;
/// Descriptors of one message, at most: what wakes 32 seats, two of each of 32 queues, and a few.
const MOST_DESCRIPTORS: usize = 104;

/// What a process asks of the keeper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// A seat at the link. With it comes the socket that the answer goes to.
    Seat,
    /// The link's descriptors as they are now, which go the way that a seat's do.
    Link,
    /// That the seat of this number is this process's: a child of the one that had it, which ends the
    /// connections there. The answer goes the way that a seat's does.
    Heir(usize),
    /// That the link's connection ends, of which the number says which it is: its peer breaks the
    /// protocol.
    Refuse(u32),
    /// That the seat of this number keeps others from a queue: its process may have been stopped amid
    /// its turn there.
    InTheWay(usize),
    /// That the keeper has a share in a listening socket of the kernel, which comes with it, and
    /// resets what connects to it.
    Listening,
    /// That the operator hears a sentence.
    Say(String),
    /// The same, unless one of the same kind was said, which is named first.
    SayOnce(String, String),
}

/// What was asked, and the descriptor that came with it.
#[derive(Debug)]
pub struct Asked {
    /// The question.
    pub ask: Ask,
    /// The descriptor.
    pub descriptor: Option<OwnedFd>,
}

/// A seat at the link.
#[derive(Debug)]
pub struct Seat {
    /// What the link is, in the driver's words.
    pub text: String,
    /// Its descriptors.
    pub descriptors: Vec<OwnedFd>,
    /// Held as long as the seat is taken: the keeper sees its other end close.
    pub held: OwnedFd,
}

/// A channel's two ends: the first is inherited.
///
/// # Errors
/// The system's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok(ends)
}

/// Asks the keeper.
///
/// # Errors
/// The system's: mostly that the keeper is gone.
pub fn ask(channel: BorrowedFd<'_>, ask: &Ask, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let text = match ask {
        Ask::Seat => "seat".to_owned(),
        Ask::Link => "link".to_owned(),
        Ask::Heir(seat) => format!("heir {seat}"),
        Ask::Refuse(epoch) => format!("refuse {epoch}"),
        Ask::InTheWay(seat) => format!("in-the-way {seat}"),
        Ask::Listening => "listening".to_owned(),
        Ask::Say(sentence) => format!("say {sentence}"),
        Ask::SayOnce(kind, sentence) => format!("once {kind}: {sentence}"),
    };
    send(channel, &text, descriptor.as_slice())
}

/// Asks for a seat, and waits for it: another may have it.
///
/// # Errors
/// The keeper's refusal, which is [`io::ErrorKind::ResourceBusy`] where no seat came free in time, or
/// the system's.
pub fn ask_for_seat(channel: BorrowedFd<'_>) -> io::Result<Seat> {
    ask_for(channel, &Ask::Seat)
}

/// Asks for the link's descriptors as they are now, and waits for them.
///
/// # Errors
/// As for [`ask_for_seat`].
pub fn ask_for_link(channel: BorrowedFd<'_>) -> io::Result<(String, Vec<OwnedFd>)> {
    let Seat { text, descriptors, .. } = ask_for(channel, &Ask::Link)?;
    Ok((text, descriptors))
}

/// Has the keeper know that a seat is this process's from now on. What is returned is held as long as
/// that is so.
///
/// # Errors
/// The keeper's refusal, which is [`io::ErrorKind::Other`], or the system's.
pub fn take_over_seat(channel: BorrowedFd<'_>, seat: usize) -> io::Result<OwnedFd> {
    let Seat { held, .. } = ask_for(channel, &Ask::Heir(seat))?;
    Ok(held)
}

fn ask_for(channel: BorrowedFd<'_>, what: &Ask) -> io::Result<Seat> {
    let (own, other) = pair()?;
    ask(channel, what, Some(other.as_fd()))?;
    drop(other);
    let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the keeper of the link is gone");
    let (text, descriptors) = receive_text(own.as_fd())?.ok_or_else(gone)?;
    match text.split_once(' ').unwrap_or((&text, "")) {
        ("seat", text) => Ok(Seat { text: text.to_owned(), descriptors, held: own }),
        ("full", why) => Err(io::Error::new(io::ErrorKind::ResourceBusy, why.to_owned())),
        (_, why) => Err(io::Error::other(why.to_owned())),
    }
}

/// The keeper says that no seat came free.
///
/// # Errors
/// The system's.
pub fn refuse_seat(to: BorrowedFd<'_>, why: &str) -> io::Result<()> {
    send(to, &format!("full {why}"), &[])
}

/// The keeper gives a seat, or says why not.
///
/// # Errors
/// The system's.
pub fn give_seat(to: BorrowedFd<'_>, seat: Result<(&str, &[BorrowedFd<'_>]), &str>) -> io::Result<()> {
    match seat {
        Ok((text, descriptors)) => send(to, &format!("seat {text}"), descriptors),
        Err(why) => send(to, &format!("none {why}"), &[]),
    }
}

/// The next that is asked; `None`: nobody has the other end any more.
///
/// # Errors
/// The system's, and what is not understood.
pub fn receive(channel: BorrowedFd<'_>) -> io::Result<Option<Asked>> {
    let unknown = || io::Error::new(io::ErrorKind::InvalidData, "a message that nobody knows");
    let Some((text, mut descriptors)) = receive_text(channel)? else { return Ok(None) };
    let ask = match text.split_once(' ').unwrap_or((&text, "")) {
        ("seat", _) => Ask::Seat,
        ("link", _) => Ask::Link,
        ("heir", seat) => Ask::Heir(seat.parse().map_err(|_| unknown())?),
        ("refuse", epoch) => Ask::Refuse(epoch.parse().map_err(|_| unknown())?),
        ("in-the-way", seat) => Ask::InTheWay(seat.parse().map_err(|_| unknown())?),
        ("listening", _) => Ask::Listening,
        ("say", sentence) => Ask::Say(sentence.to_owned()),
        ("once", both) => {
            let (kind, sentence) = both.split_once(": ").ok_or_else(unknown)?;
            Ask::SayOnce(kind.to_owned(), sentence.to_owned())
        }
        _ => return Err(unknown()),
    };
    Ok(Some(Asked { ask, descriptor: descriptors.pop() }))
}

fn send(to: BorrowedFd<'_>, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let cut = (0..=text.len().min(LONGEST)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG.into());
    }
    let parts = [IoSlice::new(&text.as_bytes()[..cut])];
    retry_on_intr(|| sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

fn receive_text(from: BorrowedFd<'_>) -> io::Result<Option<(String, Vec<OwnedFd>)>> {
    let mut bytes = [0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got =
        retry_on_intr(|| recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(these) = message {
            descriptors.extend(these);
        }
    }
    if got.bytes == 0 {
        return Ok(None);
    }
    Ok(Some((String::from_utf8_lossy(&bytes[..got.bytes]).into_owned(), descriptors)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_asked_for_and_given() {
        let (program, keeper) = pair().unwrap();
        let asker = std::thread::spawn(move || ask_for_seat(program.as_fd()));
        let asked = receive(keeper.as_fd()).unwrap().unwrap();
        assert_eq!(asked.ask, Ask::Seat);
        let to = asked.descriptor.unwrap();
        give_seat(to.as_fd(), Ok(("12", &[keeper.as_fd()]))).unwrap();
        let seat = asker.join().unwrap().unwrap();
        assert_eq!((seat.text.as_str(), seat.descriptors.len()), ("12", 1));
        assert!(receive(keeper.as_fd()).unwrap().is_none(), "the program's end is gone");
        drop(seat);
        assert!(receive_text(to.as_fd()).unwrap().is_none(), "the seat was given back");
    }

    #[test]
    fn a_refusal_has_its_reason() {
        let (program, keeper) = pair().unwrap();
        let asker = std::thread::spawn(move || ask_for_seat(program.as_fd()));
        let to = receive(keeper.as_fd()).unwrap().unwrap().descriptor.unwrap();
        give_seat(to.as_fd(), Err("no seat is left")).unwrap();
        assert_eq!(asker.join().unwrap().unwrap_err().to_string(), "no seat is left");
    }

    #[test]
    fn a_seat_is_taken_over_or_refused_as_full() {
        let (program, keeper) = pair().unwrap();
        let channel = program.try_clone().unwrap();
        let heir = std::thread::spawn(move || take_over_seat(channel.as_fd(), 3));
        let Asked { ask, descriptor } = receive(keeper.as_fd()).unwrap().unwrap();
        let to = descriptor.unwrap();
        assert_eq!(ask, Ask::Heir(3));
        give_seat(to.as_fd(), Ok(("", &[]))).unwrap();
        let held = heir.join().unwrap().unwrap();
        drop(held);
        assert!(receive_text(to.as_fd()).unwrap().is_none(), "the seat was given back");

        let asker = std::thread::spawn(move || ask_for_seat(program.as_fd()));
        let to = receive(keeper.as_fd()).unwrap().unwrap().descriptor.unwrap();
        refuse_seat(to.as_fd(), "all are taken").unwrap();
        let why = asker.join().unwrap().unwrap_err();
        assert_eq!((why.kind(), why.to_string().as_str()), (io::ErrorKind::ResourceBusy, "all are taken"));
    }

    #[test]
    fn sentences_and_listeners_come_through() {
        let (program, keeper) = pair().unwrap();
        let once = Ask::SayOnce("recv".to_owned(), "it was: refused".to_owned());
        ask(program.as_fd(), &Ask::Say("all is well".to_owned()), None).unwrap();
        ask(program.as_fd(), &once, None).unwrap();
        ask(program.as_fd(), &Ask::InTheWay(7), None).unwrap();
        ask(program.as_fd(), &Ask::Listening, Some(keeper.as_fd())).unwrap();
        assert_eq!(receive(keeper.as_fd()).unwrap().unwrap().ask, Ask::Say("all is well".to_owned()));
        assert_eq!(receive(keeper.as_fd()).unwrap().unwrap().ask, once);
        assert_eq!(receive(keeper.as_fd()).unwrap().unwrap().ask, Ask::InTheWay(7));
        let asked = receive(keeper.as_fd()).unwrap().unwrap();
        assert!(asked.ask == Ask::Listening && asked.descriptor.is_some());
        // What is longer than a message is cut, between characters.
        ask(program.as_fd(), &Ask::Say("ö".repeat(4_000)), None).unwrap();
        assert!(matches!(receive(keeper.as_fd()).unwrap().unwrap().ask, Ask::Say(text) if text.len() > 1_000));
    }
}
