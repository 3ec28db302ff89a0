//! What an operator is to hear of links and addresses, each with its time.

use super::Port;
use silo::{Clock, Silo};
use stack::Conflict;

/// Says what is new about a silo's link and addresses, once.
#[derive(Debug, Default)]
pub struct Notices {}

impl Notices {
    /// Looks for news.
    pub fn attend<L: Port, A>(&mut self, silo: &mut Silo<L, A>) {
        while let Some(conflict) = silo.stack.poll_conflict() {
            say(&sentence(&conflict));
        }
    }
}

fn sentence(conflict: &Conflict) -> String {
    let Conflict { ip, mac, unused } = conflict;
    match unused {
        false => format!("address conflict: {mac} says that it has {ip}; this process keeps and announces it"),
        true => format!("address conflict: {mac} has {ip}; it is not used here, and asked for again in a minute"),
    }
}

/// Says it on standard error, with the time (RFC 9110 section 5.6.7).
pub fn say(what: &str) {
    let date = http::date::HttpDate::from_unix(Clock.unix().as_secs());
    eprintln!("{}: {what}", String::from_utf8_lossy(date.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_names_both_and_what_comes_of_it() {
        let ip = "10.0.0.2".parse().expect("an address");
        let mac = wire::Mac([2, 0, 0, 0, 0, 7]);
        let kept = sentence(&Conflict { ip, mac, unused: false });
        let unused = sentence(&Conflict { ip, mac, unused: true });
        for told in [&kept, &unused] {
            assert!(told.contains("10.0.0.2") && told.contains("02:00:00:00:00:07"), "{told}");
        }
        assert!(kept.contains("keeps") && unused.contains("not used"));
    }
}
