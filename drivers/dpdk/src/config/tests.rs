use super::*;

#[test]
fn a_device_alone_gives_the_defaults() {
    let config: Config = "dpdk:net_null0".parse().unwrap();
    assert_eq!(config, Config::new("net_null0").unwrap());
    assert!(config.checksum && config.segmentation && !config.promiscuous && config.mtu == 1500);
    assert_eq!(config.device_arguments(), "net_null0");
}

#[test]
fn what_is_printed_reads_back() {
    let key = "6d5a".repeat(20);
    for text in [
        "dpdk:0000:3b:00.0",
        "dpdk:net_memif0,dev.role=client,dev.socket=/run/x.sock,queues=2,rxd=1024,txd=256,mtu=9000",
        "dpdk:net_tap0,rss=default,promiscuous=on,vlan-strip=on,checksum=off,interrupts=on,huge=off",
        "dpdk:net_tap0,segmentation=off,domain=1,memory=512/0,file-prefix=near-1",
        &format!("dpdk:net_null0,rss={key},memory=512"),
        "dpdk:net_null0,eal=--log-level=8 --socket-limit=512,512",
    ] {
        assert_eq!(text.parse::<Config>().unwrap().to_string(), text);
    }
}

#[test]
fn a_pci_address_is_given_back_in_full() {
    for (text, full) in [("3b:00.1", "0000:3b:00.1"), ("0001:AF:1f.7", "0001:af:1f.7")] {
        assert_eq!(text.parse::<Device>().unwrap(), Device::Pci(full.to_owned()));
    }
    for text in ["3b:20.0", "3b:00.8", "3b:00", "0:3b:00.0", "0000:0000:3b:00.0", "+b:00.0", ":00.0"] {
        assert!(text.parse::<Device>().is_err(), "{text}");
    }
}

#[test]
fn arguments_of_the_device_keep_their_order() {
    let config: Config = "dpdk:net_ring0,dev.b=1,queues=2,dev.a=x=y,dev.b=2".parse().unwrap();
    assert_eq!(config.device_arguments(), "net_ring0,b=1,a=x=y,b=2");
}

#[test]
fn a_virtual_device_has_the_queues_that_its_driver_makes() {
    for (text, most) in [
        ("dpdk:0000:3b:00.0", QUEUES_LIMIT),
        ("dpdk:net_memif0", 255),
        ("dpdk:net_null0", 1),
        ("dpdk:net_af_packet0,dev.iface=eth0,dev.qpairs=4", 4),
        ("dpdk:net_virtio_user0,dev.path=/dev/vhost-net,dev.queues=2", 2),
    ] {
        assert_eq!(text.parse::<Config>().unwrap().most_queues(), most, "{text}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    for (text, why) in [
        ("dpdk", "no dpdk link"),
        ("dpdk:", "neither a PCI address"),
        ("dpdk:eno1", "neither a PCI address"),
        ("dpdk:net_memif0;x", "neither a PCI address"),
        ("dpdk:net_null0,", "expected key=value"),
        ("dpdk:net_null0,role=client", "has no 'role'"),
        ("dpdk:net_null0,dev.=client", "has no 'dev.'"),
        ("dpdk:net_null0,queues=0", "1 to 1024"),
        ("dpdk:net_null0,rxd=16", "32 to 16384"),
        ("dpdk:net_null0,mtu=67", "68 to 16000"),
        ("dpdk:net_null0,mtu=1500,mtu=1500", "given twice"),
        ("dpdk:net_null0,rss=6d5a", "in hexadecimal"),
        ("dpdk:net_null0,rss=random", "in hexadecimal"),
        ("dpdk:net_null0,huge=2M", "on or off"),
        ("dpdk:net_null0,memory=1", "megabytes"),
        ("dpdk:net_null0,memory=0", "megabytes"),
        ("dpdk:net_null0,file-prefix=a/b", "file-prefix"),
        ("dpdk:net_null0,domain=x", "0 to 31"),
        ("dpdk:net_null0,dev.x=\0", "NUL"),
    ] {
        let message = text.parse::<Config>().unwrap_err().to_string();
        assert!(message.contains(why), "{text}: {message}");
    }
}

#[test]
fn the_environment_is_private_and_takes_no_device_by_itself() {
    let line = EalOptions::default().command_line(3);
    assert_eq!(line[..3], ["nearside", "--lcores", "0@3"].map(str::to_owned));
    assert!(line.contains(&"--in-memory".to_owned()) && line.contains(&"--no-telemetry".to_owned()));
    assert!(!line.iter().any(|argument| argument.starts_with("--file-prefix") || argument == "--no-huge"));
    let options: Config = "dpdk:net_null0,huge=off,memory=64/64,file-prefix=p,eal=--a --b=1,2".parse().unwrap();
    let line = options.eal.command_line(0);
    for wanted in ["--no-huge", "--socket-mem=64,64", "--file-prefix=p", "--a", "--b=1,2"] {
        assert!(line.contains(&wanted.to_owned()), "{wanted} in {line:?}");
    }
    assert!(!line.contains(&"--in-memory".to_owned()));
}
