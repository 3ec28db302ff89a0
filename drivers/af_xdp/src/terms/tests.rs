use super::*;
use proptest::prelude::*;

fn terms(claim: Claim) -> Terms {
    Terms {
        config: "af_xdp:eth0,queues=2,ring=1024,busy-poll=20us".parse().unwrap(),
        interface: 7,
        mac: Mac([2, 0, 0, 0, 0, 9]),
        mtu: 1_500,
        frame: 2_048,
        mode: XdpMode::Native,
        claim,
    }
}

fn host(ports: &[u16]) -> Claim {
    Claim::Host { ports: ports.to_vec() }
}

fn own(addresses: &[&str]) -> Claim {
    Claim::Own { addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(), aggregated: false }
}

#[test]
fn terms_read_back_as_they_were_written() {
    for claim in [host(&[80]), host(&[80, 443]), own(&["10.0.0.1", "fd00::1"])] {
        let terms = terms(claim);
        assert_eq!(terms.to_string().parse::<Terms>().unwrap(), terms);
    }
    let text = terms(host(&[443, 80])).to_string();
    assert_eq!(
        text,
        "af_xdp-1 af_xdp:eth0,queues=2,ring=1024,busy-poll=20us 7 02:00:00:00:00:09 1500 2048 native ports=80,443"
    );
}

#[test]
fn bad_terms_are_refused() {
    let good = terms(host(&[80])).to_string();
    for (part, other) in [
        ("af_xdp-1", "af_xdp-2"),
        ("af_xdp:eth0", "memif:eth0"),
        ("queues=2,", ""),
        ("ring=1024", "ring=1000"),
        (" 7 ", " -7 "),
        (" 7 ", " "),
        ("02:00:00:00:00:09", "02:00:00:00:00"),
        (" 1500 ", " 70000 "),
        (" 2048 ", " 3000 "),
        ("native", "fast"),
        ("ports=80", "ports=80,x"),
        ("ports=80", "addresses=80"),
        ("ports=80", "80"),
        ("ports=80", "ports=80 "),
    ] {
        assert!(good.contains(part), "{part}");
        let bad = good.replacen(part, other, 1);
        assert!(matches!(bad.parse::<Terms>(), Err(HandoverError::Terms)), "{bad}");
    }
    assert!("".parse::<Terms>().is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,200}") {
        let _ = text.parse::<Terms>();
    }
}

#[test]
fn a_successor_does_the_same_or_nothing() {
    let running = terms(host(&[80, 443]));
    let config = running.config.clone();
    assert!(running.check(&config, 7, &host(&[443, 80])).is_ok());
    let why = |result: Result<(), HandoverError>| result.unwrap_err().to_string();
    let more = Config { queues: Some(3), ..config.clone() };
    let said = why(running.check(&more, 7, &host(&[80, 443])));
    assert!(said.contains("the link must be the same") && said.contains("queues=3"), "{said}");
    assert!(why(running.check(&config, 8, &host(&[80, 443]))).contains("(interface 8)"));
    let said = why(running.check(&config, 7, &host(&[80])));
    assert!(
        said.contains("the served ports must be the same: the running process has 80,443, the new one 80"),
        "{said}"
    );
    assert!(why(running.check(&config, 7, &own(&["10.0.0.1"]))).contains("the host's, the new one of its own"));
    let running = terms(own(&["10.0.0.1"]));
    assert!(why(running.check(&config, 7, &own(&["10.0.0.2"]))).contains("the addresses must be the same"));
}
