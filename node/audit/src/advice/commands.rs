//! A script as commands: words without their quotes, where their output goes,
//! what a here-document has for them.

use std::collections::BTreeMap;

/// Lines that are one by a backslash or a quote without an end, at most.
const JOINED: usize = 200;

/// Bytes that variables may stand for in one script: what is behind that stays as
/// it is written, for a value may be twice another one, and so on.
const EXPANDED: usize = 4 << 20;

/// One simple command (POSIX, Shell Command Language, section 2.9.1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Command {
    /// Where it begins, from 1.
    pub line: usize,
    /// As it is written, on one line.
    pub text: String,
    /// Its words; variables that the script gave a value have it.
    pub words: Vec<String>,
    /// The file that its output goes to.
    pub output: Option<String>,
    /// A here-document's first line and text.
    pub input: Option<(usize, String)>,
    /// Whether it reads what the command before it prints.
    pub piped: bool,
    /// It names a loop's variable whose values are not known.
    pub vague: bool,
}

/// Words that begin what another command follows.
const BEFORE: [&str; 15] =
    ["then", "do", "else", "if", "elif", "while", "until", "!", "{", "(", "nohup", "exec", "command", "time", "eval"];

/// The commands of a script, in their order.
pub(super) fn commands(text: &str) -> Vec<Command> {
    let mut reader = Reader { known: BTreeMap::new(), left: EXPANDED, found: Vec::new() };
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let first = at;
        let mut line = counting(lines[at]).unwrap_or_else(|| lines[at].to_owned());
        at += 1;
        // A backslash before the end of a line, and a quote without an end.
        while at < lines.len().min(first + JOINED) && (ends_open(&line) || has_open_quote(&line)) {
            let continued = ends_open(&line);
            if continued {
                line.pop();
            }
            line.push(if continued { ' ' } else { '\n' });
            line.push_str(lines[at]);
            at += 1;
        }
        let from = reader.found.len();
        let ends = reader.line(&line, first + 1);
        // Here-documents stand behind the line, each up to its word.
        for (command, end, tabs) in ends {
            let start = at;
            let mut body = String::new();
            while at < lines.len() {
                let row = if tabs { lines[at].trim_start_matches('\t') } else { lines[at] };
                at += 1;
                if row == end {
                    break;
                }
                body.push_str(row);
                body.push('\n');
            }
            if let Some(command) = reader.found.get_mut(from + command) {
                command.input = Some((start + 1, body));
            }
        }
    }
    reader.found
}

/// `for ((i=0; i<4; i++))` as `for i in $(seq 0 3)`, where it counts by one; else as one of unknown values.
fn counting(line: &str) -> Option<String> {
    let at = line.find("for ((")?;
    let (head, rest) = (line.get(..at)?, line.get(at + "for ((".len()..)?);
    let (inner, after) = rest.split_once("))")?;
    let parts: Vec<String> = inner.split(';').map(|part| part.split_whitespace().collect()).collect();
    let [start, until, step] = &parts[..] else { return None };
    let (name, first) = start.split_once('=')?;
    let limit = until.strip_prefix(name).and_then(|rest| match rest.strip_prefix("<=") {
        Some(last) => last.parse::<u64>().ok(),
        None => rest.strip_prefix('<')?.parse::<u64>().ok()?.checked_sub(1),
    });
    let by_one = *step == format!("{name}++") || *step == format!("++{name}");
    Some(match (first.parse::<u64>(), limit) {
        (Ok(first), Some(last)) if by_one => format!("{head}for {name} in $(seq {first} {last}){after}"),
        _ => format!("{head}for {name} in $(count){after}"),
    })
}

/// Whether a command's text begins a loop by a condition.
pub(super) fn begins_loop(text: &str) -> bool {
    let mut before = text.split_whitespace().take_while(|word| BEFORE.contains(word));
    before.any(|word| word == "while" || word == "until")
}

fn ends_open(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
        && !super::shell::uncommented(line).is_empty()
        && super::shell::uncommented(line).len() == line.len()
}

fn has_open_quote(line: &str) -> bool {
    let (mut quote, mut escaped) = (None, false);
    for char in super::shell::uncommented(line).chars() {
        match (quote, char) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), char) if open == char => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            _ => {}
        }
    }
    quote.is_some()
}

struct Reader {
    /// Variables and their values.
    known: BTreeMap<String, String>,
    /// Bytes that they may still stand for.
    left: usize,
    found: Vec<Command>,
}

/// A command as far as it was read.
#[derive(Default)]
struct Open {
    command: Command,
    word: String,
    /// Whether there is a word, which may be empty.
    any: bool,
    /// What the next word is.
    next: Next,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Next {
    #[default]
    Argument,
    Output,
    /// The word at which a here-document ends; whether tabs before it go.
    End(bool),
    /// One that is of no interest.
    Other,
}

impl Reader {
    /// Reads a line; gives back which of its commands have a here-document, and
    /// how that ends.
    fn line(&mut self, line: &str, number: usize) -> Vec<(usize, String, bool)> {
        let line = super::shell::uncommented(line);
        let from = self.found.len();
        let mut ends = Vec::new();
        let mut open = Open::default();
        let mut start = 0;
        let mut chars = line.char_indices().peekable();
        while let Some((at, char)) = chars.next() {
            match char {
                '\'' => {
                    open.any = true;
                    open.word.extend(chars.by_ref().map(|(_, char)| char).take_while(|char| *char != '\''));
                }
                '"' => {
                    open.any = true;
                    while let Some((at, char)) = chars.next() {
                        match char {
                            '"' => break,
                            '\\' => open.word.extend(chars.next().map(|(_, char)| char)),
                            '$' | '`' => self.expand(line, at, &mut chars, &mut open.word),
                            char => open.word.push(char),
                        }
                    }
                }
                '\\' => {
                    open.any = true;
                    open.word.extend(chars.next().map(|(_, char)| char));
                }
                '$' | '`' => {
                    open.any = true;
                    self.expand(line, at, &mut chars, &mut open.word);
                }
                '>' | '<' => {
                    // The number of a descriptor belongs to the arrow.
                    let number = !open.word.is_empty() && open.word.bytes().all(|byte| byte.is_ascii_digit());
                    let descriptor = number.then(|| core::mem::take(&mut open.word));
                    open.any &= !number;
                    self.word(&mut open, from, &mut ends);
                    let mut arrow = char.to_string();
                    while let Some((_, more)) = chars.next_if(|(_, char)| "<>&|-".contains(*char)) {
                        arrow.push(more);
                    }
                    open.next = match arrow.as_str() {
                        ">" | ">>" | ">|" if descriptor.as_deref().is_none_or(|number| number == "1") => Next::Output,
                        "<<" => Next::End(false),
                        "<<-" => Next::End(true),
                        _ => Next::Other,
                    };
                }
                ';' | '|' | '&' | '\n' | '(' | ')' => {
                    self.word(&mut open, from, &mut ends);
                    self.close(&mut open, line.get(start..at).unwrap_or_default(), number);
                    let double = chars.next_if(|(_, next)| *next == char).is_some();
                    open.command.piped = char == '|' && !double;
                    start = chars.peek().map_or(line.len(), |(at, _)| *at);
                }
                char if char.is_whitespace() => self.word(&mut open, from, &mut ends),
                char => {
                    open.any = true;
                    open.word.push(char);
                }
            }
        }
        self.word(&mut open, from, &mut ends);
        self.close(&mut open, line.get(start..).unwrap_or_default(), number);
        ends
    }

    /// `$NAME` and `${NAME}` where it is known; else as it is written, with what
    /// belongs to it.
    fn expand(
        &mut self,
        line: &str,
        at: usize,
        chars: &mut core::iter::Peekable<core::str::CharIndices<'_>>,
        word: &mut String,
    ) {
        let rest = line.get(at..).unwrap_or_default();
        let length = match rest.as_bytes() {
            [b'`', ..] => rest.get(1..).and_then(|rest| rest.find('`')).map_or(rest.len(), |end| end + 2),
            [b'$', b'(', ..] => {
                let mut depth = 0_i32;
                let end = rest.bytes().position(|byte| {
                    depth += i32::from(byte == b'(') - i32::from(byte == b')');
                    depth == 0 && byte == b')'
                });
                end.map_or(rest.len(), |end| end + 1)
            }
            [b'$', b'{', ..] => rest.find('}').map_or(rest.len(), |end| end + 1),
            bytes => {
                let name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
                1 + bytes.iter().skip(1).take_while(name).count()
            }
        };
        let written = match (rest.get(..length), rest.chars().nth(1)) {
            // `$1`, `$?`, `$#`: one character.
            (Some("$"), Some(next)) => rest.get(..1 + next.len_utf8()).unwrap_or("$"),
            (Some(written), _) => written,
            (None, _) => rest,
        };
        let name = written.trim_start_matches('$').trim_matches(['{', '}']);
        // ${NAME:-what it is otherwise}
        let (name, otherwise) = name.split_once(":-").map_or((name, None), |(name, value)| (name, Some(value)));
        let value = self.known.get(name).map_or_else(|| otherwise.unwrap_or(written), String::as_str);
        let value = if value.len() <= self.left { value } else { written };
        self.left = self.left.saturating_sub(value.len());
        word.push_str(value);
        for _ in written.chars().skip(1) {
            chars.next();
        }
    }

    fn word(&self, open: &mut Open, from: usize, ends: &mut Vec<(usize, String, bool)>) {
        if !open.any {
            return;
        }
        let word = core::mem::take(&mut open.word);
        open.any = false;
        match core::mem::take(&mut open.next) {
            Next::Argument => open.command.words.push(word),
            Next::Output => open.command.output = Some(word).filter(|word| !word.is_empty()),
            Next::End(tabs) => ends.push((self.found.len() - from, word, tabs)),
            Next::Other => {}
        }
    }

    /// A command is complete.
    fn close(&mut self, open: &mut Open, text: &str, line: usize) {
        let mut command = core::mem::take(&mut open.command);
        open.next = Next::Argument;
        while command.words.first().is_some_and(|word| BEFORE.contains(&word.as_str())) {
            command.words.remove(0);
        }
        if command.words.first().is_some_and(|word| word == "sudo") {
            command.words.remove(0);
            while command.words.first().is_some_and(|word| word.starts_with('-')) {
                command.words.remove(0);
            }
        }
        if command.words.is_empty() && command.output.is_none() {
            return;
        }
        let assigns = |word: &String| super::shell::assignment(word).is_some();
        if command.words.iter().all(|word| assigns(word) || word == "export") {
            for (name, value) in command.words.iter().filter_map(|word| word.split_once('=')) {
                self.known.insert(name.to_owned(), value.to_owned());
            }
            return;
        }
        // For one command alone.
        while command.words.first().is_some_and(assigns) {
            command.words.remove(0);
        }
        // A loop's variable has no value from before.
        if let [word, name, ..] = command.words.as_slice()
            && (word == "for" || word == "read")
        {
            self.known.remove(name);
        }
        command.line = line;
        command.text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.found.push(command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let shown = |one: Command| {
            let output = one.output.map(|path| format!(" > {path}")).unwrap_or_default();
            let input = one.input.map(|(line, text)| format!(" < {line}:{text:?}")).unwrap_or_default();
            format!("{}{}:{}{output}{input}", if one.piped { "|" } else { "" }, one.line, one.words.join(","))
        };
        commands(text).into_iter().map(shown).collect()
    }

    #[test]
    fn words_quotes_and_redirections() {
        for (text, expected) in [
            ("a b 'c d' \"e $f\" # g", vec!["1:a,b,c d,e $f"]),
            ("sudo -n a; b && c || d & e", vec!["1:a", "1:b", "1:c", "1:d", "1:e"]),
            ("echo 4 >/x 2>/dev/null", vec!["1:echo,4 > /x"]),
            ("echo 1 >> /x", vec!["1:echo,1 > /x"]),
            ("echo a | sudo tee -a /x >/dev/null", vec!["1:echo,a", "|1:tee,-a,/x > /dev/null"]),
            ("N=24\necho 1 > /proc/irq/$N/x", vec!["2:echo,1 > /proc/irq/24/x"]),
            ("echo ${Q} `x y` $(a (b) c)", vec!["1:echo,${Q},`x y`,$(a (b) c)"]),
            ("a \\\n  b\nc", vec!["1:a,b", "3:c"]),
            ("cat > /x <<EOF\na\n$b\nEOF\nc", vec!["1:cat > /x < 2:\"a\\n$b\\n\"", "5:c"]),
            ("tee /x <<-'E' >/y\n\ta\n\tE\nc", vec!["1:tee,/x > /y < 2:\"a\\n\"", "4:c"]),
            ("if [ -f x ]; then\n a\nelse b; fi", vec!["1:[,-f,x,]", "2:a", "3:b", "3:fi"]),
            ("A=1 b c", vec!["1:b,c"]),
            ("echo 'a\nb' > /x", vec!["1:echo,a\nb > /x"]),
            ("(a; b)", vec!["1:a", "1:b"]),
            ("X=${1:-eth0}\na $X ${Y:-}", vec!["2:a,eth0,"]),
            ("for f in /sys/x*/y; do echo 1 > $f; done", vec!["1:for,f,in,/sys/x*/y", "1:echo,1 > $f", "1:done"]),
            ("for f in a b; do c $f; done", vec!["1:for,f,in,a,b", "1:c,$f", "1:done"]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn odd_scripts_end() {
        let parts = ["'", "\"", "$", "${", "$(", "`", "<<E\n", ">", "\\", "\n", ";", "a", " ", "é", "#", "(", "|"];
        let mut seed = 7_usize;
        for _ in 0..3_000 {
            let text: String = (0..12)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    parts[(seed >> 33) % parts.len()]
                })
                .collect();
            let _ = commands(&text);
            let _ = crate::advice::read("x.sh", &text);
        }
    }

    /// What grows with the square of a script's length, or doubles with each line,
    /// would not come to its end here.
    #[test]
    fn long_scripts_end() {
        let doubled = format!("A=xxxxxxxxxx\n{}echo $A\n", "A=$A$A\n".repeat(200));
        let texts = ["'\n".to_owned(), "a '\nb\n".to_owned(), "\\\n".to_owned(), "$a ${b".to_owned(), "$(".to_owned()];
        for text in texts.iter().map(|text| text.repeat((1 << 16) / text.len())).chain([doubled]) {
            let longest = commands(&text).iter().flat_map(|one| one.words.iter().map(String::len)).max();
            assert!(longest.unwrap_or(0) <= EXPANDED, "{longest:?}");
        }
    }
}
