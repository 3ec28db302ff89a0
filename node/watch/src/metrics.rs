//! Samples in the text form of OpenMetrics.

use crate::sample::Sample;
use core::fmt::Write;

/// The media type of [`openmetrics`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A sample's counters, as they are: whoever collects them makes rates.
#[must_use]
pub fn openmetrics(sample: &Sample) -> String {
    let mut out = Text(String::new());
    let hz = sample.ticks_per_second.max(1) as f64;
    out.family("nearside_cpu_seconds", "counter", "Processor time by core and kind.");
    const KINDS: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
    for (core, row) in &sample.cores {
        for (kind, ticks) in KINDS.iter().zip(row.ticks) {
            let labels = [("core", core.to_string()), ("kind", (*kind).to_owned())];
            out.value("nearside_cpu_seconds_total", &labels, ticks as f64 / hz);
        }
    }
    out.family("nearside_backlog_dropped_packets", "counter", "Packets that a core's backlog dropped.");
    for (core, row) in &sample.cores {
        out.value("nearside_backlog_dropped_packets_total", &[("core", core.to_string())], row.backlog[1] as f64);
    }
    for (name, what, at) in [
        ("nearside_port_bytes", "Bytes of an interface.", 0),
        ("nearside_port_packets", "Packets of an interface.", 1),
        ("nearside_port_errors", "Errors of an interface.", 2),
        ("nearside_port_drops", "Packets that an interface dropped.", 3),
    ] {
        out.family(name, "counter", what);
        for (port, row) in &sample.ports {
            let pair = [row.bytes, row.packets, row.errors, row.drops][at];
            for (way, count) in ["in", "out"].iter().zip(pair) {
                let labels = [("port", port.clone()), ("way", (*way).to_owned())];
                out.value(&format!("{name}_total"), &labels, count as f64);
            }
        }
    }
    for (key, count) in &sample.counts {
        let name = format!("nearside_{}", word(key));
        out.family(&name, "counter", "A counter of the kernel's for the whole machine.");
        out.value(&format!("{name}_total"), &[], *count as f64);
    }
    for (key, level) in &sample.levels {
        let name = format!("nearside_{}", word(key));
        out.family(&name, "gauge", "A level of the whole machine.");
        out.value(&name, &[], *level as f64);
    }
    out.domains(sample);
    out.bypass(sample);
    out.family("nearside_watch_cpu_seconds", "counter", "Processor time of whoever watches.");
    out.value("nearside_watch_cpu_seconds_total", &[], sample.own_nanos as f64 / 1e9);
    out.0.push_str("# EOF\n");
    out.0
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}\n# HELP {name} {help}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, String)], value: f64) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{open}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn domains(&mut self, sample: &Sample) {
        self.family("nearside_domain_free_bytes", "gauge", "Free memory of a domain.");
        for (domain, row) in &sample.domains {
            self.value("nearside_domain_free_bytes", &[("domain", domain.to_string())], row.free as f64);
        }
        self.family("nearside_domain_pages", "counter", "Pages that a domain gave, by who asked.");
        for (domain, row) in &sample.domains {
            for (asked, count) in ["local", "other"].iter().zip(row.pages) {
                let labels = [("domain", domain.to_string()), ("asked", (*asked).to_owned())];
                self.value("nearside_domain_pages_total", &labels, count as f64);
            }
        }
        self.family("nearside_domain_channel_bytes", "counter", "Bytes over a domain's memory channels.");
        for (domain, row) in &sample.domains {
            if let Some(bytes) = row.channels {
                self.value("nearside_domain_channel_bytes_total", &[("domain", domain.to_string())], bytes as f64);
            }
        }
        self.family("nearside_domain_traffic_bytes", "counter", "Bytes between a domain's cores and memory.");
        for (domain, row) in &sample.domains {
            if let Some([all, _]) = row.traffic {
                self.value("nearside_domain_traffic_bytes_total", &[("domain", domain.to_string())], all as f64);
            }
        }
    }

    /// Names of what processes count are a label: they are as many as there are
    /// versions of them.
    fn bypass(&mut self, sample: &Sample) {
        self.family("nearside_process", "gauge", "What a process of Nearside publishes, by silo or worker.");
        for (pid, row) in &sample.bypass {
            for (silo, values) in row.silos.iter().enumerate() {
                for (name, value) in values {
                    let labels = [("pid", pid.to_string()), ("silo", silo.to_string()), ("name", name.clone())];
                    self.value("nearside_process", &labels, *value as f64);
                }
            }
        }
    }
}

/// A name as metrics have it.
fn word(key: &str) -> String {
    key.chars().map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Bypass, CoreCounters, DomainCounters, PortCounters};

    #[test]
    fn a_sample_is_families_with_their_values() {
        let mut sample = Sample { ticks_per_second: 100, own_nanos: 5_000_000, ..Sample::default() };
        sample.cores.insert(3, CoreCounters { ticks: [150, 0, 0, 0, 0, 0, 0, 0, 0, 0], ..CoreCounters::default() });
        sample.ports.insert("a\"b".into(), PortCounters { bytes: [7, 8], ..PortCounters::default() });
        sample.counts.insert("tcp.RetransSegs".into(), 9);
        sample.levels.insert("memory free".into(), 10);
        sample.domains.insert(0, DomainCounters { free: 11, ..DomainCounters::default() });
        let silos = vec![[("tcp.retransmits".to_owned(), 12)].into()];
        sample.bypass.insert(5, Bypass { label: "x".into(), silos });
        let text = openmetrics(&sample);
        for line in [
            "# TYPE nearside_cpu_seconds counter",
            "nearside_cpu_seconds_total{core=\"3\",kind=\"user\"} 1.5",
            "nearside_port_bytes_total{port=\"a\\\"b\",way=\"out\"} 8",
            "nearside_tcp_retranssegs_total 9",
            "nearside_memory_free 10",
            "nearside_process{pid=\"5\",silo=\"0\",name=\"tcp.retransmits\"} 12",
            "nearside_watch_cpu_seconds_total 0.005",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
        // No family stands twice: the form forbids it.
        let mut families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let all = families.len();
        families.sort_unstable();
        families.dedup();
        assert_eq!(families.len(), all);
    }
}
