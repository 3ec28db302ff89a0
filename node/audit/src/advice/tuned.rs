//! How tuned reads a profile: Python's `configparser` with `=` alone between
//! key and value, and comments behind a blank and `#`.

use super::lines::Advice;

/// One option of a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Where it stands, from 1.
    pub line: usize,
    /// Its section.
    pub section: String,
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Whether the line is indented, and so more of the value of the option
    /// before it, whose name it bears.
    pub continues: bool,
}

/// The options of a profile. For a line that is neither section nor option
/// tuned refuses the whole of it.
pub(super) fn entries(file: &str, text: &str, advice: &mut Advice) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut section: Option<String> = None;
    // The option that is open, and how far its line was indented.
    let (mut option, mut indent): (Option<String>, usize) = (None, 0);
    for (at, whole) in text.lines().enumerate() {
        let line = uncommented(whole);
        if line.trim().is_empty() {
            continue;
        }
        let own = line.len() - line.trim_start().len();
        let line = line.trim();
        if let (Some(section), Some(key)) = (&section, option.as_ref().filter(|_| own > indent)) {
            let (section, key, value) = (section.clone(), key.clone(), line.to_owned());
            entries.push(Entry { line: at + 1, section, key, value, continues: true });
            continue;
        }
        indent = own;
        let named = line.strip_prefix('[').and_then(|line| line.rsplit_once(']')).map(|(name, _)| name);
        if let Some(name) = named.filter(|name| !name.is_empty()) {
            (section, option) = (Some(name.to_owned()), None);
            continue;
        }
        let mut wrong = |why: &str, meant: Option<String>| advice.fault(file, at + 1, whole.trim(), why, meant);
        let Some(within) = &section else {
            wrong(
                "stands before the first section: tuned refuses the whole profile",
                Some(format!("[sysctl]\n{line}")),
            );
            continue;
        };
        match line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some((key, value)) if !key.is_empty() => {
                option = Some(key.to_owned());
                let (section, key, value) = (within.clone(), key.to_owned(), value.to_owned());
                entries.push(Entry { line: at + 1, section, key, value, continues: false });
            }
            _ => {
                let meant = line.split_once([':', ' ']).map(|(key, value)| format!("{key}={}", value.trim()));
                wrong("is neither a section nor key=value: tuned refuses the whole profile", meant);
            }
        }
    }
    entries
}

/// Whether a line is a section's head.
pub(super) fn is_section(line: &str) -> bool {
    let line = uncommented(line).trim();
    let name = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
    name.is_some_and(|name| !name.is_empty() && !name.contains(['[', '{', '"', ',']))
}

/// Without a comment: a line that begins with `#` or `;` is all comment, and
/// elsewhere one begins with `#` behind white space.
fn uncommented(line: &str) -> &str {
    if line.trim_start().starts_with(['#', ';']) {
        return "";
    }
    let begins = |(at, _): &(usize, &str)| line.get(..*at).is_some_and(|before| before.ends_with(char::is_whitespace));
    line.match_indices('#').find(begins).and_then(|(at, _)| line.get(..at)).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each as tuned 2.20 reads it with Python 3.11.
    #[test]
    fn profiles_are_read_as_tuned_reads_them() {
        let read = |text: &str| {
            let mut advice = Advice::default();
            let entries: Vec<String> = entries("p", text, &mut advice)
                .into_iter()
                .map(|one| format!("{}/{}={}{}", one.section, one.key, one.value, if one.continues { "+" } else { "" }))
                .collect();
            (entries.join(" | "), advice.faults.len())
        };
        for (text, expected, faults) in [
            ("[main]\nsummary=a\n[sysctl] # x\nvm.swappiness=1\n", "main/summary=a | sysctl/vm.swappiness=1", 0),
            ("[sysctl]# x\na=1\n", "sysctl/a=1", 0),
            ("[sysctl] x\na=1\n", "sysctl/a=1", 0),
            ("[bootloader]\ncmdline=idle=poll # x\n", "bootloader/cmdline=idle=poll", 0),
            ("[bootloader]\ncmdline=idle=poll#x\n", "bootloader/cmdline=idle=poll#x", 0),
            ("[b]\nc=idle=poll ; x\n; c\n", "b/c=idle=poll ; x", 0),
            ("[b]\nc=idle=poll\n  nohz=on\n", "b/c=idle=poll | b/c=nohz=on+", 0),
            ("[main]\ns=a\n [sysctl]\nx=1\n", "main/s=a | main/s=[sysctl]+ | main/x=1", 0),
            ("[a]\nx=#1\ny= # 1", "a/x=#1 | a/y=", 0),
            ("[a]\nx=\"1 2\"", "a/x=\"1 2\"", 0),
            ("[a]\nx: 1\n", "", 1),
            ("[a]\n=1\n", "", 1),
            ("x=1\n[a]\ny=2\n", "a/y=2", 1),
            ("[a\nx=1\n", "", 2),
        ] {
            assert_eq!(read(text), (expected.to_owned(), faults), "{text}");
        }
    }
}
