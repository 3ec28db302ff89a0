//! An example or two of every command: for its help, its manual page, and a
//! test that tries each.

use clap::Command;
use clap::builder::StyledStr;

/// By the command's words.
pub(super) const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "nearside serve ./site --listen 8080",
            "nearside load http://localhost:8080/ -c 64 -d 10s",
            "nearside status",
        ],
    ),
    (
        "serve",
        &[
            "nearside serve ./site --listen 8080",
            "nearside serve ./site --listen 443 --listen unix:/run/web.sock --accept least",
            "nearside serve ./site --listen 8080 --access-log - --check",
            "nearside serve --settings serve.toml",
            "nearside serve --site site.toml --explain",
            "nearside serve ./site --link af_xdp:eth0 --listen 80 --silos auto --plan",
            "nearside serve ./site --link tap:near0,addr=10.9.0.1/24 --addr 10.9.0.2/24",
            "nearside serve --respond 2649 --link memif:/run/near.sock --addr 10.0.0.2/24 --core 0",
            "nearside serve --respond 2649 --work burn:1.8ms --listen 8080 --workers 1",
        ],
    ),
    (
        "nginx",
        &[
            "nearside nginx -t --explain",
            "nearside nginx -t -q --explain --json",
            "nearside nginx -c /etc/nginx/nginx.conf -g 'daemon off;'",
            "nearside nginx -s reload",
            "nearside nginx --directives",
        ],
    ),
    (
        "load",
        &[
            "nearside load http://localhost:8080/ -c 64",
            "nearside load http://localhost:8080/ --rate poisson:10k -d 30s",
            "nearside load http://localhost:8080/ --find-max 'p99<1ms'",
            "nearside load http://localhost:8080/ --find-max 'p99.9<1ms,errors=0' --html curve.html",
            "nearside load http://localhost:8080/ --rate 5k --expect 'p99<2ms' --json",
            "nearside load http://localhost:8080/ --sweep conns=1,2,4..128 --procs 1,2",
            "nearside load 'http://localhost:8080/item/{{random:1..1000}}' --template --want-status 200 --strict",
            "nearside load http://10.0.0.2/ --bulk both -c 4 -d 10s",
            "nearside load 'http://10.0.0.2/film/[000-299].ts' --stream 5Mbit --buffer 4s -c 1k --expect underruns=0",
            "nearside load http://localhost:8080/ --cookies --follow 5 --want-header 'Content-Type: text/html'",
            "nearside load unix:/run/web.sock:/index.html -n 100k",
            "nearside load http://10.0.0.2/ --link memif:/run/near.sock --addr 10.0.0.1/24 --core 1",
        ],
    ),
    ("demo", &["nearside demo --quick", "nearside demo --rounds 10 --out out/today"]),
    (
        "compare",
        &[
            "nearside compare http://localhost:8080/ http://localhost:8081/",
            "nearside compare http://a/ http://localhost:8081/ --start-second 'nginx -c b.conf -g \"daemon off;\"'",
            "nearside compare http://localhost:8080/ http://localhost:8081/ -d 10s -- --rate 10k",
        ],
    ),
    ("lab", &["nearside lab list", "nearside lab run accept-queue"]),
    ("lab list", &["nearside lab list"]),
    ("lab schema", &["nearside lab schema", "nearside lab schema accept-queue > mine.toml"]),
    (
        "lab run",
        &[
            "nearside lab run accept-queue",
            "nearside lab run idle --rounds 10 --out out/lab/idle-today",
            "nearside lab run media --set media.memory-mib=8192 --set media.folder=/srv/films",
        ],
    ),
    ("lab report", &["nearside lab report out/lab/idle-1"]),
    (
        "lab compare",
        &[
            "nearside lab compare out/lab/idle-1 out/lab/idle-2",
            "nearside lab compare out/lab/x-1:spin out/lab/x-1:sleep",
            "nearside lab compare before.json after.json",
        ],
    ),
    ("lab judge", &["nearside lab judge wrk.txt", "nearside lab judge ab.txt claims.toml --link 10G --json"]),
    ("packet", &["nearside packet forward --link memif:/run/a.sock --link memif:/run/b.sock --cores 2"]),
    (
        "packet forward",
        &[
            "nearside packet forward --link memif:/run/a.sock --link memif:/run/b.sock --mode macswap --cores 2",
            "nearside packet forward --link af_xdp:eth1 --link af_xdp:eth2 --cores 2,3 --duration 60s --json",
            "nearside packet forward --link af_xdp:eth1 --mode icmpecho",
        ],
    ),
    (
        "packet load",
        &[
            "nearside packet load --link memif:/run/a.sock --link memif:/run/b.sock --stream 64:1M -d 30s --core 1",
            "nearside packet load --link memif:/run/a.sock --probe 76B --background 64B:1M --expect 'loss=0,max<20us'",
            "nearside packet load --link af_xdp:eth1 --stream imix:1Gbit,flows=1000 --json",
            "nearside packet load --link af_packet:eth1 --link af_packet:eth2 --probe 76:1k --clock hardware",
            "nearside packet load --link af_xdp:eth1 --link af_xdp:eth2 --replay noon.pcap,rate=1M,loop=on",
        ],
    ),
    (
        "packet search",
        &[
            "nearside packet search --link memif:/run/a.sock --link memif:/run/b.sock --core 1",
            "nearside packet search --link af_xdp:eth1 --link af_xdp:eth2 --goal rfc2544 --settle 5s --out found.json",
        ],
    ),
    (
        "packet latency",
        &[
            "nearside packet latency --link memif:/run/a.sock --link memif:/run/b.sock --rates 0,1M --out today",
            "nearside packet latency --link af_xdp:eth1 --link af_xdp:eth2 --probe 76B:10k --rates 0,100k,500k -d 8h",
        ],
    ),
    (
        "packet rfc2544",
        &[
            "nearside packet rfc2544 --link memif:/run/a.sock --link memif:/run/b.sock --core 1 --quick",
            "nearside packet rfc2544 --link af_xdp:eth1 --link af_xdp:eth2 \
             --line-rate 10Gbit --networks --out rfc2544.json",
            "nearside packet rfc2544 --link af_xdp:eth1 --link af_xdp:eth2 --line-rate 10Gbit --broadcast --routing \
             --management 198.18.0.1,198.19.0.1",
            "nearside packet rfc2544 --link af_xdp:eth1 --test reset --reset-command 'ssh dut reboot'",
        ],
    ),
    ("packet run", &["nearside packet run zero-loss --rate 1M --duration 8h --core 1 --forwarder-core 2"]),
    (
        "packet run zero-loss",
        &[
            "nearside packet run zero-loss --rate 1M --duration 8h --core 1 --forwarder-core 2 --out night",
            "nearside packet run zero-loss --rate 10M --link af_xdp:eth1 --link af_xdp:eth2 --out night",
        ],
    ),
    (
        "packet lab",
        &["nearside packet lab --core 1 --device-core 0", "nearside packet lab --dut bridge,xdp,forward -d 10s --json"],
    ),
    (
        "packet sweep",
        &[
            "nearside packet sweep --core 1 --device-core 0",
            "nearside packet sweep --factor burst=32,8 --factor vector=256,64 --link af_xdp:eth1 --link af_xdp:eth2 \
             --device-command 'dpdk-testpmd --force-max-simd-bitwidth={vector} -- --burst={burst}'",
        ],
    ),
    ("packet report", &["nearside packet report alone.json loaded.json --out latency.html"]),
    (
        "packet compare",
        &["nearside packet compare before/ after/", "nearside packet compare one.json other.json --json"],
    ),
    ("links", &["nearside links", "nearside links --json"]),
    (
        "status",
        &[
            "nearside status",
            "nearside status --json | head",
            "nearside status --live",
            "nearside status --counters /run/near/status",
            "nearside status --ndjson --interval 5s | jq .places",
            "nearside status --listening",
            "nearside status --health 127.0.0.1:9145",
            "nearside status /run/near/status",
        ],
    ),
    (
        "watch",
        &[
            "nearside watch",
            "nearside watch --line --record today.ndjson",
            "nearside watch --replay today.ndjson --cores --ports",
            "nearside watch --pid 4711 --trace syscalls,mallocs,symbols",
            "nearside watch --pid 4711 -g",
            "nearside watch --trace mallocs",
            "nearside watch --ndjson --openmetrics 127.0.0.1:9477",
        ],
    ),
    (
        "numa",
        &[
            "nearside numa",
            "nearside numa --topology --measure",
            "nearside numa --budget 190G --tls --disk",
            "nearside numa --budget 190G --tls --disk --siloed no --published cascade-lake",
            "nearside numa --record > numa.txt; nearside numa --topology --root numa.txt",
        ],
    ),
    ("node", &["nearside node audit --role web", "nearside node plan --role web-kernel"]),
    (
        "node audit",
        &[
            "nearside node audit --role web",
            "nearside node audit --of /etc/sysctl.d/99-tuning.conf --all",
            "nearside node audit --of nginx.conf performance-profile.yaml",
            "nearside node record > node.txt; nearside node audit --root node.txt --json",
        ],
    ),
    ("node explain", &["nearside node explain net.ipv4.tcp_tw_reuse", "nearside node explain 'cmdline idle'"]),
    ("node record", &["nearside node record > node.txt"]),
    (
        "node plan",
        &[
            "nearside node plan --role forwarder",
            "nearside node plan --only net.core.somaxconn=16384 --only 'frequency governor=performance'",
            "nearside node plan --only 'ring sizes@eth0=rx 1024' --only 'service irqbalance=stop'",
        ],
    ),
    (
        "node apply",
        &[
            "nearside node apply 3f2a90c51be7d604",
            "nearside node apply 3f2a90c51be7d604 --try 10m && nearside node confirm",
            "nearside node apply 3f2a90c51be7d604 --persist systemd",
        ],
    ),
    (
        "node noise",
        &[
            "nearside node noise --cores 1 --for 30s",
            "nearside node noise --cores 2-3 --for 60s --threshold 1us --expect 'max<10us,share<0.01%' --json",
        ],
    ),
    (
        "node profile",
        &[
            "nearside node profile render --for openshift --huge 1G:20 --out profile",
            "nearside node profile check profile --node node.txt",
        ],
    ),
    (
        "node profile render",
        &[
            "nearside node profile render --isolated 2-15,18-31 --reserved 0-1,16-17 --huge 1G:20 --for \
                openshift --out profile --root node.txt",
            "nearside node profile render --for grub",
        ],
    ),
    ("node profile explain", &["nearside node profile explain manifests/"]),
    ("node profile check", &["nearside node profile check profile --node node.txt --cluster 4.18"]),
    ("node profile pod", &["nearside node profile pod pod.yaml profile/10-performance-profile.yaml"]),
    ("node undo", &["nearside node undo", "nearside node undo --all"]),
    ("node confirm", &["nearside node confirm"]),
    (
        "import",
        &[
            "nearside import /data/f-stack/config.ini",
            "nearside import f-stack.conf --explain",
            "nearside import f-stack.conf --nginx nginx.conf",
        ],
    ),
    ("completions", &["nearside completions bash > /etc/bash_completion.d/nearside"]),
    ("man", &["nearside man | man -l -", "nearside man ./man1"]),
];

/// Those of the command with these words.
pub(super) fn of(words: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|(command, _)| *command == words).map_or(&[], |(_, lines)| lines)
}

/// Puts each command's examples at the end of its help.
pub(super) fn add(command: Command, words: &str) -> Command {
    let mut command = command;
    let examples = of(words);
    if !examples.is_empty() {
        let said = command.get_after_help().map(StyledStr::to_string);
        let text = format!("EXAMPLES\n  {}", examples.join("\n  "));
        command = command.after_help(said.map_or(text.clone(), |said| format!("{said}\n\n{text}")));
    }
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let words = if words.is_empty() { name.clone() } else { format!("{words} {name}") };
        command.mut_subcommand(name, |below| add(below, &words))
    })
}

#[cfg(test)]
mod tests {
    use super::super::help::BOTH;
    use super::super::{definition, definition_alone, parse};
    use super::*;

    /// The commands of a shell's line, each as its words.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
        let mut quoted = false;
        for char in line.chars().chain([';']) {
            match char {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                ' ' | ';' | '&' | '|' | '>' if !quoted => {
                    words.extend(word.take());
                    if char != ' ' {
                        commands.push(core::mem::take(&mut words));
                    }
                }
                _ => word.get_or_insert_default().push(char),
            }
        }
        commands
    }

    /// Every command that is shown, by its words.
    fn all(command: &Command, words: &str) -> Vec<String> {
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        let below = shown.flat_map(|below| all(below, format!("{words} {}", below.get_name()).trim()));
        [words.to_owned()].into_iter().chain(below).collect()
    }

    #[test]
    fn every_command_has_examples_that_the_program_takes() {
        let file = std::env::temp_dir().join(format!("nearside-examples-{}.toml", std::process::id()));
        std::fs::write(&file, "folder = '.'\nlisten = 8080\n").expect("written");
        for words in all(&definition_alone(), "") {
            let lines = of(&words);
            assert!(!lines.is_empty(), "nearside {words} has no example");
            for line in lines {
                let line = line.replace("serve.toml", &file.display().to_string());
                let ours = commands(&line).into_iter().filter(|words| words.first().is_some_and(|w| w == "nearside"));
                let ours: Vec<Vec<String>> = ours.collect();
                assert!(ours.iter().any(|all| all[1..].join(" ").starts_with(&words)), "{line} is of {words}");
                for command in ours {
                    assert!(parse(&command).is_ok(), "{line}: {:?}", parse(&command).err().map(|e| e.to_string()));
                }
            }
        }
        let _ = std::fs::remove_file(&file);
        let known = all(&definition_alone(), "");
        assert!(EXAMPLES.iter().all(|(words, _)| known.iter().any(|command| command == words)));
    }

    #[test]
    fn help_ends_with_the_examples_and_keeps_what_it_had() {
        let mut command = definition();
        let load = command.find_subcommand_mut("load").expect("it is there").render_long_help().to_string();
        assert!(load.contains("Exit code:") && load.contains("\n\nEXAMPLES\n  nearside load http://"), "{load}");
        assert_eq!(load.matches("EXAMPLES").count(), 1);
    }

    #[test]
    fn no_group_of_options_takes_the_next_one_in() {
        let command = definition_alone();
        let link = "Links (with --link)";
        for (name, heading) in [
            ("link", Some(link)),
            ("capture", Some(link)),
            ("pid-file", Some("Restart (without --link, or over af_xdp)")),
            ("workers", Some("Kernel sockets (without --link)")),
            ("loss", Some("Fault injection (both directions of this side's link)")),
            ("listen", None),
            ("idle", Some(BOTH)),
            ("status-page", Some(BOTH)),
        ] {
            for subcommand in ["serve", "load"] {
                let of = command.find_subcommand(subcommand).expect("it is there");
                let Some(arg) = of.get_arguments().find(|arg| arg.get_long() == Some(name)) else { continue };
                assert_eq!(arg.get_help_heading(), heading, "{subcommand} --{name}");
            }
        }
    }
}
