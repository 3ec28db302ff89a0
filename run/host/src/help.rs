//! What each value of the statistics page means, in a sentence: where it is
//! counted it is said, and here what silos, links and domains add.

/// Of a silo or worker, its link, an aggregation of links, and of domains.
const OWN: [(&str, &str); 39] = [
    ("silo.pinned", "Whether it is pinned to a core."),
    ("silo.core", "The core that it is pinned to."),
    ("silo.domain", "The NUMA domain of its core."),
    ("silo.turns", "Turns taken."),
    ("silo.busy_turns", "Turns that found frames or events, or had more to do."),
    ("silo.busy_ns", "Time of turns that found something to do."),
    ("silo.idle_ns", "Time of turns that found nothing."),
    ("silo.asleep_ns", "Time asleep."),
    ("silo.sleeps", "Times gone to sleep."),
    ("silo.pages_local", "Pages of its memory in the domain of its core."),
    ("silo.pages_remote", "Pages of its memory in another domain."),
    ("silo.pages_absent", "Pages of its memory that are in none yet."),
    ("silo.looks", "Times that it was looked where its pages are."),
    ("silo.interleaved", "Whether its pages are spread over domains on purpose."),
    ("link.up", "Whether the link's other side is there."),
    ("link.lost", "Whether the link's interface was deleted."),
    ("link.takeover_wait_ns", "The longest that nobody received while a process was taken over from."),
    ("link.rx_frames", "Frames received."),
    ("link.rx_bytes", "Bytes of frames received."),
    ("link.tx_frames", "Frames sent."),
    ("link.tx_bytes", "Bytes of frames sent."),
    ("link.rx_dropped", "Received frames that the link dropped."),
    ("link.tx_dropped", "Frames to send that the link dropped."),
    ("link.tx_full", "Times that no transmit slot was free."),
    ("link.disconnects", "Times that the link's other side went away."),
    ("stack.connections", "Connections open or opening now."),
    ("stack.half_open", "Handshakes under way now."),
    ("stack.receive_memory_bytes", "Memory of bytes received and not taken yet."),
    ("bond.ports", "Ports of the aggregation that take part now."),
    ("bond.changes", "Times that ports began or ceased to take part."),
    ("bond.copied", "Frames copied to several ports."),
    ("bond.lent", "Frames sent by another silo's port."),
    ("bond.no_member", "Frames dropped because no port took part."),
    ("numa.seen", "Connections seen with their packets coming in on cores of a domain, of those looked at."),
    ("numa.rx_frames", "Frames received by ports of a domain."),
    ("numa.rx_bytes", "Bytes of frames received by ports of a domain."),
    ("numa.tx_frames", "Frames sent by ports of a domain."),
    ("numa.tx_bytes", "Bytes of frames sent by ports of a domain."),
    ("numa.far_content_bytes", "Bytes sent of content that lies in another domain."),
];

/// What the value of this name means, if that is known: a page may be that of
/// another version.
#[must_use]
pub fn help(name: &str) -> Option<&'static str> {
    let find = |list: &[(&'static str, &'static str)], name: &str| {
        list.iter().find(|(known, _)| *known == name).map(|(_, text)| text.trim())
    };
    let (group, value) = name.split_once('.')?;
    let counted =
        [("app", server::Counters::HELP), ("sockets", sockets::Counters::HELP), ("steer", steer::Counters::HELP)];
    let mut counted = counted.iter().chain(&stack::HELP).filter(|(of, _)| *of == group);
    find(&OWN, name).or_else(|| counted.find_map(|(_, list)| find(list, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told_in_the_words_of_its_place() {
        assert_eq!(help("app.requests"), Some("Request heads accepted."));
        assert_eq!(help("silo.busy_ns"), Some("Time of turns that found something to do."));
        assert!(help("tcp.retransmits").is_some() && help("neighbour.created").is_some());
        assert_eq!((help("app.no_such"), help("requests"), help("")), (None, None, None));
    }
}
