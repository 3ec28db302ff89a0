//! Pause frames of a tester's links, as their drivers tell.

use host::drivers::LinkSpec;
use packet::pause::PauseFrames;

/// Drivers of interfaces without a wire: nothing there speaks Ethernet's flow
/// control.
const VIRTUAL: [&str; 5] = ["veth", "tun", "bridge", "dummy", "netdevsim"];

/// What the links' counters were before a test.
pub struct PauseWatch {
    before: Vec<Before>,
}

enum Before {
    Known(PauseFrames),
    Counting { name: String, frames: u64 },
}

impl PauseWatch {
    /// Looks at the links once.
    pub fn begin(links: &[LinkSpec]) -> Self {
        Self { before: links.iter().map(look).collect() }
    }

    /// What is to be said of them after the test.
    pub fn end(&self) -> PauseFrames {
        let each = self.before.iter().map(|before| match before {
            Before::Known(pause) => pause.clone(),
            Before::Counting { name, frames } => match count(name) {
                Some(now) => {
                    PauseFrames::Counted { frames: now.saturating_sub(*frames), told: format!("{name}'s own count") }
                }
                None => PauseFrames::Unknown(format!("{name} does not count them any more")),
            },
        });
        PauseFrames::worst(each).unwrap_or_else(|| PauseFrames::Unknown("there is no link".to_owned()))
    }
}

fn look(link: &LinkSpec) -> Before {
    let kind = link.driver.kind();
    if kind.in_memory {
        return Before::Known(PauseFrames::NotApplicable(format!("{} is shared memory", kind.name)));
    }
    let name = link.name();
    let Some(interface) = name.strip_prefix("af_xdp:").or_else(|| name.strip_prefix("tap:")) else {
        return Before::Known(PauseFrames::Unknown(format!("nobody tells of {name}")));
    };
    of_interface(interface)
}

fn of_interface(interface: &str) -> Before {
    let driver = links::driver_name(interface);
    if let Some(driver) = driver.as_deref().filter(|driver| VIRTUAL.contains(driver)) {
        return Before::Known(PauseFrames::NotApplicable(format!("{interface} is {driver}, which has no wire")));
    }
    let settings = links::driver_settings(interface);
    let pause = settings.iter().find(|(name, _)| *name == "pause").map(|(_, told)| told.as_str());
    if let Some(told) = pause.filter(|told| told.contains("rx off") && told.contains("tx off")) {
        return Before::Known(PauseFrames::Off(format!("{interface}: {told}")));
    }
    match (count(interface), pause) {
        (Some(frames), _) => Before::Counting { name: interface.to_owned(), frames },
        (None, Some(told)) => {
            Before::Known(PauseFrames::Unknown(format!("{interface} has them on ({told}) and does not count them")))
        }
        (None, None) => Before::Known(PauseFrames::Unknown(format!("{interface}'s driver does not tell"))),
    }
}

/// Pause frames that came and went.
fn count(interface: &str) -> Option<u64> {
    let (sent, received) = ethtool::pause_frames(interface).ok().flatten()?;
    Some(sent.saturating_add(received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_and_interfaces_without_a_wire_have_none() {
        let link = LinkSpec::parse("memif:@nobody", driver::Role::Client).expect("a link");
        assert!(matches!(PauseWatch::begin(&[link]).end(), PauseFrames::NotApplicable(_)));
        // Of what is not there nobody tells.
        let link = LinkSpec::parse("af_xdp:nowhere0", driver::Role::Client).expect("a link");
        assert!(matches!(PauseWatch::begin(&[link]).end(), PauseFrames::Unknown(_)));
        assert!(matches!(PauseWatch::begin(&[]).end(), PauseFrames::Unknown(_)));
    }
}
