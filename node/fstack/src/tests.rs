use super::*;

const FILE: &str = "# two cores\n[dpdk]\nlcore_mask=14\nchannel=4\npromiscuous=1\nnuma_on=1\ntso=1\nvlan_strip=0\n\
                    idle_sleep=20\npkt_tx_delay=100 ; the default\nsymmetric_rss=0\nallow=02:00.0\nport_list=0\n\
                    [port0]\naddr=192.0.2.2\nnetmask=255.255.255.0\nbroadcast=192.0.2.255\ngateway=192.0.2.1\n\
                    vip_addr=192.0.2.3;192.0.2.4\naddr6=2001:db8::2\nprefix_len=64\n\
                    [freebsd.boot]\nhz=100\nkern.ipc.maxsockets=262144\n[freebsd.sysctl]\nnet.inet.tcp.msl=2000\n\
                    net.inet.tcp.cc.algorithm=cubic\n";

fn line<'a>(import: &'a Import, key: &str) -> &'a Line {
    import.lines.iter().find(|line| line.key == key).unwrap_or_else(|| panic!("{key}"))
}

#[test]
fn masks_are_hexadecimal_and_back() {
    assert_eq!(cores_of_mask("14"), Some(vec![2, 4]));
    assert_eq!(cores_of_mask("0x1"), Some(vec![0]));
    assert_eq!(cores_of_mask("ff00"), Some((8..16).collect()));
    for wrong in ["", "g", "0x", "-1", "1 2"] {
        assert_eq!(cores_of_mask(wrong), None, "{wrong:?}");
    }
    for cores in [vec![0], vec![2, 4], vec![63, 64], (0..128).collect()] {
        assert_eq!(cores_of_mask(&mask_of_cores(&cores)), Some(cores));
    }
    assert_eq!(mask_of_cores(&[]), "0");
}

#[test]
fn a_whole_file_becomes_one_command() {
    let import = read(FILE).expect("a configuration");
    let expected = "nearside serve ./site --link dpdk:0000:02:00.0,promiscuous=on --addr 192.0.2.2/24 --addr \
        2001:db8::2/64 \
                    --addr 192.0.2.3/32 --addr 192.0.2.4/32 --gateway 192.0.2.1 --silos 2,4 --tx-delay 100us --idle sleep:20us \
                    --congestion cubic --max-connections 262144";
    assert_eq!(import.command.join(" "), expected);
    assert!(matches!(&line(&import, "lcore_mask").meaning, Meaning::Option(text) if text.contains("cores 2, \
            4") && text.contains("not core 14")));
    assert!(matches!(&line(&import, "channel").meaning, Meaning::Nothing(_)));
    assert!(matches!(&line(&import, "pkt_tx_delay").meaning, Meaning::Warning(text) if text.contains("100 us")));
    assert_eq!(line(&import, "pkt_tx_delay").value, "100");
    assert!(
        matches!(&line(&import, "net.inet.tcp.msl").meaning, Meaning::Warning(text) if text.contains("4 s instead \
            of 60 s"))
    );
    assert_eq!(line(&import, "netmask").line, 16);
}

/// The sample that F-Stack ships has this slip.
#[test]
fn a_netmask_with_gaps_is_found() {
    let text = "[dpdk]\nport_list=0\n[port0]\naddr=192.0.2.2\nnetmask=255.255.225.0\n";
    let import = read(text).expect("a configuration");
    assert!(matches!(&line(&import, "netmask").meaning, Meaning::Warning(_)));
}

#[test]
fn a_core_alone_is_a_list_and_no_number() {
    let import = read("[dpdk]\nlcore_mask=8\n").expect("a configuration");
    assert!(import.command.join(" ").ends_with("--silos 3-3"));
}

#[test]
fn what_nobody_reads_is_told() {
    let import = read("[dpdk]\npci_whilelist=02:00.0\n[elsewhere]\na=1\n").expect("a configuration");
    assert!(import.lines.iter().all(|line| matches!(line.meaning, Meaning::Warning(_))));
}

#[test]
fn other_files_are_refused_with_their_line() {
    assert_eq!(read("a=1\n"), Err(ImportError::Line { line: 1, why: "a key before the first section" }));
    assert_eq!(read("[dpdk\n"), Err(ImportError::Line { line: 1, why: "a section without its end" }));
    assert_eq!(
        read("[dpdk]\nnonsense\n"),
        Err(ImportError::Line {
            line: 2,
            why: "neither a section nor \
        key=value"
        })
    );
    assert_eq!(read("[x]\na=1\n"), Err(ImportError::NoSection));
    assert_eq!(read(&"#".repeat(2 << 20)), Err(ImportError::TooLong));
}

/// Whatever the values are, every key has a meaning, and nothing panics.
#[test]
fn no_value_is_too_strange() {
    for value in ["", "-1", "99999999999999999999", "ä;b#c", "0-", "/", "255.0.255.0", "1,2,,3"] {
        for key in [
            "lcore_mask",
            "port_list",
            "idle_sleep",
            "pkt_tx_delay",
            "allow",
            "netmask",
            "vip_addr",
            "hz",
            "net.inet.tcp.msl",
            "mode",
        ] {
            for section in ["dpdk", "port0", "bond0", "freebsd.boot", "freebsd.sysctl", "pcap", "kni"] {
                let text = format!("[dpdk]\nport_list=0\n[{section}]\n{key}={value}\n");
                assert!(!read(&text).expect("a configuration").lines.is_empty());
            }
        }
    }
}

const NGINX: &str = "worker_processes 1; # one\nfstack_conf f-stack.conf;\nevents {\n    worker_connections 1024;\n    \
                     use kqueue;\n}\nhttp {\n    sendfile off;\n    log_format a '$x; {y}';\n    server {\n        \
                     listen 80;\n        kernel_network_stack off; server_name a;\n        location / { root html; }\n    \
                     }\n}\n";

#[test]
fn both_files_become_a_command_and_a_configuration() {
    let import = read(FILE).expect("a configuration");
    let both = read_nginx(NGINX, FILE, &import).expect("both");
    let command = both.command.join(" ");
    assert!(command.starts_with("nearside nginx -c nginx.conf --link dpdk:0000:02:00.0"), "{command}");
    assert!(command.contains("--silos 2,4") && !command.contains("--max-connections"), "{command}");
    let expected = NGINX
        .replace("fstack_conf f-stack.conf;", "# of F-Stack: fstack_conf f-stack.conf")
        .replace("use kqueue;", "# of F-Stack: use kqueue")
        .replace("kernel_network_stack off; server_name", "# of F-Stack: kernel_network_stack off\n server_name");
    assert_eq!(both.configuration, expected);
    let of = |text: &str| both.directives.iter().find(|one| one.text == text).unwrap_or_else(|| panic!("{text}"));
    assert!(matches!(&of("worker_processes 1").meaning, Meaning::Warning(why) if why.contains("2 cores")));
    assert_eq!((of("use kqueue").line, of("use kqueue").stays), (5, false));
    // Every directive has its line, blocks too.
    assert_eq!(both.directives.len(), 14);
}

#[test]
fn configurations_that_are_none_are_refused_with_their_line() {
    let import = read(FILE).expect("a configuration");
    for (text, line) in [("a 1;\n}", 2), ("events {\n", 2), ("a\n 'b;", 1), ("a 1;\nb", 2), ("x {\n y\n}", 2)] {
        let why = read_nginx(text, FILE, &import).expect_err(text);
        assert!(matches!(why, ImportError::Line { line: found, .. } if found == line), "{text}: {why}");
    }
    assert_eq!(read_nginx(&"#".repeat(2 << 20), FILE, &import), Err(ImportError::TooLong));
    for odd in ["", "\u{0}", "a \"\\\";", ";;;", "{}", "\u{feff}fstack_conf x;", "fstack_conf\n  a\n;b 1;"] {
        let _ = read_nginx(odd, FILE, &import);
    }
}
