//! What a result of ours says at its head, whichever command wrote it: its kind and the
//! version of its form. Beside them stand the machine (`environment`) and the verdict.

use serde::{Deserialize, Serialize};

/// The version of the forms that this program writes and reads.
pub const SCHEMA: u32 = 1;

/// Which measurement a result is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultKind {
    /// A load, closed or open.
    Load,
    /// The highest rate that meets objectives.
    FindMax,
    /// Loads of several numbers of connections and threads.
    LoadSweep,
    /// Streams without end.
    Bulk,
    /// Streams that are to have a rate.
    Streams,
    /// A trial of frames.
    PacketLoad,
    /// A search for rates.
    PacketSearch,
    /// A probe beside backgrounds.
    PacketLatency,
    /// The whole of RFC 2544.
    Rfc2544,
    /// The published measurement.
    ZeroLoss,
    /// Devices compared.
    PacketLab,
    /// A device's settings, one changed at a time.
    PacketSweep,
    /// What a forwarder counted.
    PacketForward,
    /// An experiment of the lab.
    Experiment,
    /// What takes a busy core's time.
    Noise,
    /// A recording of `nearside watch`.
    Recording,
    /// Nearside versus nginx.
    Demo,
    /// Settings judged.
    Audit,
    /// A machine's cores, domains, interfaces and disks.
    Topology,
    /// What a rate costs a machine.
    Budget,
}

/// By which command a result came, and when.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ResultOrigin {
    /// The command, word by word.
    #[serde(default)]
    pub command: Vec<String>,
    /// When it was made, seconds since 1970; zero where it is not known.
    #[serde(default)]
    pub made: u64,
}

impl ResultOrigin {
    /// This process's command, as others may read it, and now.
    #[must_use]
    pub fn now() -> Self {
        // A file's name may be any bytes.
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        #[expect(clippy::disallowed_methods, reason = "a result's time is that of the clock on the wall")]
        let now = std::time::SystemTime::now();
        let made = now.duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self { command: shown(words), made }
    }

    /// Without an option and its value: one that only says where results go, and that it cannot
    /// say twice.
    #[must_use]
    pub fn without(mut self, option: &str) -> Self {
        self.command.retain(|word| !word.starts_with(&format!("{option}=")));
        if let Some(at) = self.command.iter().position(|word| word == option) {
            self.command.drain(at..self.command.len().min(at + 2));
        }
        self
    }
}

/// A command as others may read it: what a header says may be a secret.
fn shown(words: impl Iterator<Item = String>) -> Vec<String> {
    let hidden = |header: &str| format!("{}: ...", header.split(':').next().unwrap_or_default());
    let mut is_header = false;
    words
        .map(|word| {
            if core::mem::take(&mut is_header) {
                return hidden(&word);
            }
            // `-k`, which takes no value, may stand in one word with it.
            let short = word.strip_prefix('-').and_then(|rest| rest.trim_start_matches('k').strip_prefix('H'));
            is_header = word == "--header" || short == Some("");
            match short.or_else(|| word.strip_prefix("--header=")).filter(|said| !said.is_empty()) {
                Some(said) => format!("{}{}", &word[..word.len() - said.len()], hidden(said)),
                None => word,
            }
        })
        .collect()
}

impl ResultKind {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Load,
        Self::FindMax,
        Self::LoadSweep,
        Self::Bulk,
        Self::Streams,
        Self::PacketLoad,
        Self::PacketSearch,
        Self::PacketLatency,
        Self::Rfc2544,
        Self::ZeroLoss,
        Self::PacketLab,
        Self::PacketSweep,
        Self::PacketForward,
        Self::Experiment,
        Self::Noise,
        Self::Recording,
        Self::Demo,
        Self::Audit,
        Self::Topology,
        Self::Budget,
    ];

    /// As results write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::FindMax => "find-max",
            Self::LoadSweep => "load-sweep",
            Self::Bulk => "bulk",
            Self::Streams => "streams",
            Self::PacketLoad => "packet-load",
            Self::PacketSearch => "packet-search",
            Self::PacketLatency => "packet-latency",
            Self::Rfc2544 => "rfc2544",
            Self::ZeroLoss => "zero-loss",
            Self::PacketLab => "packet-lab",
            Self::PacketSweep => "packet-sweep",
            Self::PacketForward => "packet-forward",
            Self::Experiment => "experiment",
            Self::Noise => "noise",
            Self::Recording => "recording",
            Self::Demo => "demo",
            Self::Audit => "audit",
            Self::Topology => "topology",
            Self::Budget => "budget",
        }
    }

    /// The command that writes it.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::Load => "nearside load",
            Self::FindMax => "nearside load --find-max",
            Self::LoadSweep => "nearside load --sweep",
            Self::Bulk => "nearside load --bulk",
            Self::Streams => "nearside load --stream",
            Self::PacketLoad => "nearside packet load",
            Self::PacketSearch => "nearside packet search",
            Self::PacketLatency => "nearside packet latency",
            Self::Rfc2544 => "nearside packet rfc2544",
            Self::ZeroLoss => "nearside packet run zero-loss",
            Self::PacketLab => "nearside packet lab",
            Self::PacketSweep => "nearside packet sweep",
            Self::PacketForward => "nearside packet forward",
            Self::Experiment => "nearside lab run",
            Self::Noise => "nearside node noise",
            Self::Recording => "nearside watch --record",
            Self::Demo => "nearside demo",
            Self::Audit => "nearside node audit",
            Self::Topology => "nearside numa --topology",
            Self::Budget => "nearside numa --budget",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_without_what_headers_say() {
        let words = "load http://a/ -H Authorization:secret --header Cookie:secret --header=X-Key:secret -HY:secret -c 4 \
                     -kH A:secret -kHB:secret -k";
        let shown = shown(words.split(' ').map(str::to_owned)).join(" ");
        let wanted = "load http://a/ -H Authorization: ... --header Cookie: ... --header=X-Key: ... -HY: ... -c 4 \
                      -kH A: ... -kHB: ... -k";
        assert_eq!(shown, wanted);
    }
}
