//! Our TLS as BoringSSL's test runner drives it: handshakes, and behind them our record layer as it
//! works on kernel sockets, or on our own stack (`-stack`).
//!
//! ```text
//! runner ◄── TCP, the runner listens ── bogo: Worker ─► Shim ─► Acceptor | Connector ─► Net::secure
//! runner ◄── TCP ── Bridge ◄─ stack ◄── frames in memory ── stack ─► Shim, the same
//! ```
//!
//! The runner starts this program once for a test, and is its peer. Its own documentation
//! (ssl/test/PORTING.md) has what is asked: connect, say the number that was given, shake hands, send
//! back each byte that arrives with its bits turned, end when the runner does. 0: all was as it is to
//! be; 1: not so; 89: the test asks for what there is not.
//!
//! `bogo --configuration FILE` writes the runner's configuration from a list of what is left out.
#![forbid(unsafe_code)]

mod flags;
mod left_out;
mod shim;
mod stack_path;
mod tls;

use flags::{Test, Unfit};
use std::process::ExitCode;

const UNIMPLEMENTED: u8 = 89;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, file] = words.as_slice()
        && word == "--configuration"
    {
        return left_out::print(file);
    }
    if words.iter().any(|word| word == "-is-handshaker-supported") {
        println!("No");
        return ExitCode::SUCCESS;
    }
    match Test::read(words).and_then(shim::run) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(why)) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
        Err(Unfit::Unimplemented(what)) => {
            eprintln!("unimplemented: {what}");
            ExitCode::from(UNIMPLEMENTED)
        }
        Err(Unfit::Wrong(why)) => {
            eprintln!("bogo: {why}");
            ExitCode::FAILURE
        }
    }
}
