use super::*;

#[test]
fn an_address_says_all_or_little() {
    let least: Config = "memif:/run/x.sock".parse().expect("valid");
    assert_eq!(least, Config::new(Address::Path("/run/x.sock".into()), Role::Client));
    assert_eq!(Config::parse("memif:@x", Role::Server).expect("valid").role, Role::Server);
    let text = "memif:/run/x.sock,role=server,id=7,queues=4,ring=1024,buffer=4096,mtu=3000,hugepages=off,\
                mode=poll,secret=open,name=web,copy=on,sealed=required,memory=64,socket-mode=0660,peers=1000:1001";
    let expected = Config {
        socket: Address::Path("/run/x.sock".into()),
        role: Role::Server,
        id: 7,
        queues: 4,
        log2_ring_size: 10,
        buffer_size: 4096,
        mtu: 3000,
        hugepages: false,
        mode: Mode::Poll,
        secret: Some("open".into()),
        name: "web".into(),
        copy: true,
        require_sealed: true,
        memory: Some(64),
        socket_mode: 0o660,
        peers: Peers::Users(vec![1000, 1001]),
    };
    assert_eq!(text.parse(), Ok(expected));
}

#[test]
fn the_keys_told_are_the_keys_taken() {
    for key in KEYS {
        let error = format!("memif:/x,{key}=?").parse::<Config>();
        assert!(!matches!(error, Err(ConfigError::Key(_))), "{key}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let cases = [
        ("tap:x", "starts with memif:"),
        ("memif:", "socket path"),
        ("memif:role=server", "socket path"),
        ("memif:@", "socket path"),
        ("memif:/x,role", "`role` is not of the form"),
        ("memif:/x,roll=server", "no key `roll`"),
        ("memif:/x,role=boss", "`role` takes server or client"),
        ("memif:/x,id=1,id=2", "`id` is given twice"),
        ("memif:/x,queues=0", "`queues` takes 1 to 255"),
        ("memif:/x,ring=100", "`ring` takes a power of two"),
        ("memif:/x,ring=32", "`ring` takes a power of two"),
        ("memif:/x,ring=32768", "`ring` takes a power of two"),
        ("memif:/x,buffer=1024", "`buffer` takes"),
        ("memif:/x,buffer=2000", "`buffer` takes a multiple of 64"),
        ("memif:/x,mtu=9000", "`buffer` takes"),
        ("memif:/x,mtu=100,buffer=2048", "`mtu` takes"),
        ("memif:/x,secret=", "`secret` takes 1 to 23 bytes"),
        ("memif:/x,secret=0123456789012345678901234", "`secret` takes 1 to 23 bytes"),
        ("memif:/x,memory=0", "`memory` takes MiB"),
        ("memif:/x,socket-mode=rw", "`socket-mode` takes permissions in octal"),
        ("memif:/x,socket-mode=07777", "`socket-mode` takes"),
        ("memif:/x,socket-mode=1777", "`socket-mode` takes"),
        ("memif:/x,socket-mode=+660", "`socket-mode` takes"),
        ("memif:/x,peers=", "`peers` takes own, any, or uids"),
        ("memif:/x,peers=root", "`peers` takes own, any, or uids"),
        ("memif:/x,hugepages=maybe", "`hugepages` takes on or off"),
        ("memif:/x,queues=255,ring=16384,buffer=65536", "2 GiB"),
    ];
    for (text, expected) in cases {
        let message = text.parse::<Config>().expect_err(text).to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
    let long = format!("memif:/{}", "x".repeat(107));
    assert_eq!(long.parse::<Config>(), Err(ConfigError::Path));
}
