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
        Self { command: shown_command(words), made }
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

/// A command as others may read it: what a header says may be a secret, and so may who is named in a URL before its
/// host (RFC 3986 section 3.2.1), also in a line that the command hands to a shell. Whether it is ours or another
/// tool's does not matter: headers have one option with all of them.
#[must_use]
pub fn shown_command(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut headers = HeaderWords::default();
    let mut one = |word: String| match headers.take(&word) {
        Some((before, header)) => format!("{before}{}", header_name(header)),
        None if word.contains(char::is_whitespace) => shown_line(&word),
        None => shown_urls(&word),
    };
    words.into_iter().map(&mut one).collect()
}

/// A text of a command, or about it, without what its headers say and without the passwords of its URLs.
#[must_use]
pub fn without_secrets(text: &str, command: &[String]) -> String {
    let passwords = command.iter().flat_map(|word| named_users(word));
    let mut said: Vec<String> = passwords.map(|(_, user)| password(user).1.to_owned()).collect();
    let mut put = |header: &str| said.extend(header.split_once(':').map(|(_, value)| value.trim().to_owned()));
    let mut headers = HeaderWords::default();
    for word in command {
        if let Some((_, header)) = headers.take(word) {
            put(header);
            continue;
        }
        let mut in_line = HeaderWords::default();
        for word in shell_words(word).filter(|(raw, _)| is_word(raw)).map(|(raw, _)| plain(raw)) {
            in_line.take(&word).into_iter().for_each(|(_, header)| put(header));
        }
    }
    // The longest first: one may be a part of another.
    said.retain(|value| !value.is_empty());
    said.sort_by_key(|value| core::cmp::Reverse(value.len()));
    said.iter().fold(text.to_owned(), |text, value| text.replace(value, "..."))
}

/// Who is named in the URLs of a text, before their hosts, with where that begins.
fn named_users(text: &str) -> impl Iterator<Item = (usize, &str)> {
    const ENDS: &str = "/?#'\"\\`<>|";
    text.match_indices("://").filter_map(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let authority = rest.split(|c: char| c.is_whitespace() || ENDS.contains(c)).next()?;
        Some((at + mark.len(), authority.rsplit_once('@')?.0))
    })
}

/// A user, as far as a name stands before the password, and the password: what stands there alone may be one.
fn password(user: &str) -> (&str, &str) {
    user.split_once(':').map_or(("", user), |(name, password)| (&user[..=name.len()], password))
}

/// A text in whose URLs no password stands.
fn shown_urls(text: &str) -> String {
    let (mut shown, mut done) = (String::new(), 0);
    for (at, user) in named_users(text) {
        shown.extend([&text[done..at], password(user).0, "..."]);
        done = at + user.len();
    }
    shown + &text[done..]
}

/// Options whose value is a header.
const HEADERS: [&str; 2] = ["--header", "--want-header"];

/// Which words of a command are headers, in the order of the words.
#[derive(Default)]
struct HeaderWords {
    next_is_header: bool,
}

impl HeaderWords {
    /// What stands before a header in this word, and the header, if it has one.
    fn take<'a>(&mut self, word: &'a str) -> Option<(&'a str, &'a str)> {
        if core::mem::take(&mut self.next_is_header) {
            return Some(("", word));
        }
        // `-k`, which takes no value, may stand in one word with it.
        let short = word.strip_prefix('-').and_then(|rest| rest.trim_start_matches('k').strip_prefix('H'));
        self.next_is_header = HEADERS.contains(&word) || short == Some("");
        let long = || HEADERS.iter().find_map(|name| word.strip_prefix(name)?.strip_prefix('='));
        let header = short.or_else(long).filter(|said| !said.is_empty())?;
        Some((&word[..word.len() - header.len()], header))
    }
}

/// Its name alone; nothing of what is no header.
fn header_name(header: &str) -> String {
    header.split_once(':').map_or_else(|| "...".to_owned(), |(name, _)| format!("{name}: ..."))
}

/// A line of a shell likewise; one without headers is as it was.
fn shown_line(line: &str) -> String {
    let mut headers = HeaderWords::default();
    let mut shown = String::new();
    for (raw, space) in shell_words(line) {
        let word = plain(raw);
        match Some(&word).filter(|_| is_word(raw)).and_then(|word| headers.take(word)) {
            Some((before, header)) => {
                let name = header_name(header);
                shown.extend(["'", before, &name, "'"]);
            }
            None => shown.push_str(raw),
        }
        shown.push_str(space);
    }
    shown_urls(&shown)
}

/// The words of a shell's line with their quotes, and the space behind each.
fn shell_words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut quote = None;
    let pieces = line.split_inclusive(move |c: char| {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '\'' | '"') => quote = Some(c),
            _ => {}
        }
        quote.is_none() && c.is_whitespace()
    });
    pieces.map(|piece| piece.split_at(piece.trim_end().len()))
}

/// Whether it is one: not what there is between two spaces, or at the end of a line that goes on.
fn is_word(raw: &str) -> bool {
    !matches!(raw, "" | "\\")
}

/// A word without them.
fn plain(raw: &str) -> String {
    raw.replace(['\'', '"'], "")
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

    /// Whether two of them are compared: what judges or models a machine measures nothing.
    #[must_use]
    pub const fn is_compared(self) -> bool {
        !matches!(self, Self::Audit | Self::Topology | Self::Budget)
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
                     -kH A:secret -kHB:secret -k --want-header X:secret --want-header=Y:secret -H secret";
        let shown = shown_command(words.split(' ').map(str::to_owned)).join(" ");
        let wanted = "load http://a/ -H Authorization: ... --header Cookie: ... --header=X-Key: ... -HY: ... -c 4 \
                      -kH A: ... -kHB: ... -k --want-header X: ... --want-header=Y: ... -H ...";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_line_for_a_shell_is_shown_without_them_too() {
        let shown = |line: &str| shown_command(["sh", "-c", line].map(str::to_owned)).pop().expect("a line");
        let plain = "wrk -c 4  'http://a/?b= c' | tail -n 1";
        assert_eq!(shown(plain), plain);
        assert_eq!(shown("wrk -H 'A: very secret' http://a/  -c 4"), "wrk -H 'A: ...' http://a/  -c 4");
        assert_eq!(shown("wrk -H  'A: secret' -H \\\n B:secret"), "wrk -H  'A: ...' -H \\\n 'B: ...'");
        assert_eq!(shown("curl \"-HA: very secret\" --header=\"B: secret"), "curl '-HA: ...' '--header=B: ...'");
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        let shown = |word: &str| shown_command([word.to_owned()]).pop().expect("a word");
        for (word, wanted) in [
            ("https://joe:s3:cr@t@10.0.0.2/a@b", "https://joe:...@10.0.0.2/a@b"),
            ("--url=http://token@host?x=y@z", "--url=http://...@host?x=y@z"),
            ("http://host/a://b@c", "http://host/a://...@c"),
            ("http://a:b@c,http://d:e@f", "http://a:...@c,http://d:...@f"),
            (
                "curl 'http://joe:secret@host' \"http://[::1]:80/\" http://me:secret@b/",
                "curl 'http://joe:...@host' \"http://[::1]:80/\" http://me:...@b/",
            ),
            ("http://10.0.0.2:80/user:name@host", "http://10.0.0.2:80/user:name@host"),
            ("joe:secret@host", "joe:secret@host"),
        ] {
            assert_eq!(shown(word), wanted);
        }
        let told = without_secrets("http://joe:sesame@a/: sesame is wrong", &["http://joe:sesame@a/".to_owned()]);
        assert_eq!(told, "http://joe:...@a/: ... is wrong");
    }

    #[test]
    fn what_is_said_of_a_command_has_no_header_of_it() {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let told = "no answer to A: sesame open, nor to sesame";
        let hidden = "no answer to A: ..., nor to ...";
        assert_eq!(without_secrets(told, &words(&["load", "-H", "A: sesame open", "-HB:sesame"])), hidden);
        assert_eq!(without_secrets(told, &words(&["sh", "-c", "wrk -H 'A: sesame open' -H B:sesame"])), hidden);
        assert_eq!(without_secrets(told, &words(&["load", "http://a/"])), told);
    }
}
