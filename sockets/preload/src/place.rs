//! Where this process is: what it was told when it began, and who hears it.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use link::LinkState;
use seats::Terms;
use std::os::fd::BorrowedFd;

/// What this process was told when it began.
pub struct Place {
    pub terms: Terms,
    pub channel: c_int,
}

struct Told(UnsafeCell<Option<Place>>);

// SAFETY: it is written by the constructor, before there is another thread, and read from then on.
unsafe impl Sync for Told {}

static PLACE: Told = Told(UnsafeCell::new(None));

/// Where this process is, if it runs on our stack.
pub fn place() -> Option<&'static Place> {
    // SAFETY: nobody writes it any more.
    unsafe { (*PLACE.0.get()).as_ref() }
}

/// Called once, before the program begins.
pub fn set_place(place: Place) {
    // SAFETY: there is no other thread yet, and nobody holds a reference.
    unsafe { *PLACE.0.get() = Some(place) }
}

/// Tells the operator, by the keeper.
pub fn say(sentence: &str) {
    ask(&seats::Ask::Say(sentence.to_owned()));
}

/// The same once of all processes of the program, for each thing that it may be of.
pub fn say_once(of: &str, sentence: &str) {
    ask(&seats::Ask::SayOnce(of.to_owned(), sentence.to_owned()));
}

/// Tells the keeper, or asks for what has no answer.
pub fn ask(what: &seats::Ask) {
    if let Some(place) = place() {
        // SAFETY: the descriptor is the constructor's, which looked at it; nobody closes it but the
        // program, and then calls on it fail.
        let channel = unsafe { BorrowedFd::borrow_raw(place.channel) };
        let said = seats::ask(channel, what, None);
        // There is nobody else to tell.
        let _ = said;
    }
}

/// The operator hears what has become of an interface. Over memif peers come and go.
pub fn tell_of_link(state: LinkState) {
    let Some(link) = place().map(|place| &place.terms.link).filter(|link| !link.starts_with("memif")) else { return };
    let process = std::process::id();
    if state == LinkState::Up {
        say(&format!("process {process}: {link} is up"));
    } else {
        say(&format!(
            "process {process}: {link} is down: its interface is down (ip link), has no carrier, or was deleted. \
             Connections wait for it; one that was deleted does not come back, and the program is to be started again"
        ));
    }
}
