//! Our stack as a shared library that [packetdrill] runs its scripts against.
//!
//! packetdrill loads a library (`--so_filename=libpacketdrill_nearside.so`),
//! calls [`packetdrill_interface_init`] and from then on makes a script's
//! system calls, and sends and receives its packets, through the table of
//! functions that it got. Behind the table stand a whole silo (the turn, the
//! stack, an application that offers sockets) and a virtual clock: time moves
//! when packetdrill sleeps or waits for a packet, by exactly as much, so that
//! a script of minutes runs in milliseconds and gives the same result each
//! time.
//!
//! ```text
//! packetdrill ─► interface ─► instance ─► host ─► silo ─► stack
//!                (C ABI)      (threads)   (clock)   └──► sockets (App)
//! ```
//!
//! Scripts with code blocks (`%{ … }%`) need it preloaded too, because
//! packetdrill asks the system for what it gives to them:
//! `LD_PRELOAD=libpacketdrill_nearside.so`.
//!
//! `--so_flags` takes [`Settings`], such as `timestamps=off,mtu=1420`.
//!
//! [packetdrill]: https://github.com/google/packetdrill

mod address;
mod errno;
mod host;
mod info;
mod instance;
mod interface;
mod options;
mod preload;
mod ready;
mod settings;
mod sockets;
mod tape;

pub use interface::{Interface, packetdrill_interface_init};
pub use settings::Settings;
