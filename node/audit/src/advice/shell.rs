//! What a shell makes of a line, as far as files of settings need it.

/// The line without its comment: a `#` that begins a word, outside of quotes
/// (POSIX, Shell Command Language, section 2.3).
pub(super) fn uncommented(line: &str) -> &str {
    let (mut quote, mut begins_word, mut escaped) = (None, true, false);
    for (at, char) in line.char_indices() {
        match (quote, char) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), char) if open == char => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(char),
            (None, '#') if begins_word => return line.get(..at).unwrap_or(line),
            _ => {}
        }
        begins_word = quote.is_none() && !escaped && (char.is_ascii_whitespace() || ";|&()".contains(char));
    }
    line
}

/// A line that gives a variable a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Assignment {
    /// The variable.
    pub name: String,
    /// Its value without quotes; what `$NAME` stands for is left out.
    pub value: String,
    /// The variables that its value begins from: itself with `+=`, and each
    /// `$NAME`.
    pub from: Vec<String>,
    /// What follows it on the line: then the value is for that command alone.
    pub command: Option<String>,
    /// Whether a quote has no end on the line.
    pub open: bool,
}

/// `NAME=value`, `NAME+='value'`, `export NAME="…"`; `None` for anything else.
pub(super) fn assignment(line: &str) -> Option<Assignment> {
    let line = line.trim();
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (name, rest) = line.split_once('=')?;
    let (name, added) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    if name.is_empty() || !name.chars().all(is_name) || name.starts_with(|char: char| char.is_ascii_digit()) {
        return None;
    }
    let mut found = Assignment {
        name: name.to_owned(),
        value: String::new(),
        from: if added { vec![name.to_owned()] } else { Vec::new() },
        command: None,
        open: false,
    };
    let mut chars = rest.char_indices().peekable();
    let mut quote = None;
    while let Some((at, char)) = chars.next() {
        match (quote, char) {
            (Some(open), char) if open == char => quote = None,
            (None | Some('"'), '\\') => found.value.extend(chars.next().map(|(_, char)| char)),
            (None | Some('"'), '$') => {
                let mut variable = String::new();
                while let Some((_, char)) = chars.next_if(|(_, char)| is_name(*char) || "{}".contains(*char)) {
                    variable.push(char);
                }
                found.from.push(variable.trim_matches(['{', '}']).to_owned());
            }
            (None, '"' | '\'') => quote = Some(char),
            (None, char) if char.is_ascii_whitespace() || char == ';' => {
                let rest = uncommented(rest.get(at..).unwrap_or_default()).trim_matches([' ', '\t', ';']);
                found.command = (!rest.is_empty()).then(|| rest.to_owned());
                break;
            }
            (_, char) => found.value.push(char),
        }
    }
    found.open = quote.is_some();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_begin_a_word_outside_of_quotes() {
        for (line, expected) in [
            ("systemctl stop irqbalance # off", "systemctl stop irqbalance "),
            ("echo never > /x/enabled # no THP", "echo never > /x/enabled "),
            ("echo a#b", "echo a#b"),
            ("echo 'a # b' \"c # d\" \\# e # f", "echo 'a # b' \"c # d\" \\# e "),
            ("true;# x", "true;"),
            ("# x", ""),
            ("echo \"a\"#b", "echo \"a\"#b"),
            ("echo 'no end # x", "echo 'no end # x"),
        ] {
            assert_eq!(uncommented(line), expected, "{line}");
        }
    }

    #[test]
    fn assignments_are_read_as_by_a_shell() {
        let of = |line: &str| assignment(line).expect(line);
        assert_eq!(of("A='quiet mce=off' # x").value, "quiet mce=off");
        assert_eq!(of("A=\"quiet\"# x").value, "quiet#");
        assert_eq!(of("export A=\"a\\\"b\"").value, "a\"b");
        assert_eq!(of("A=\"$A idle=poll ${B}\"").from, ["A", "B"]);
        assert_eq!((of("A+=\" x\"").value, of("A+=\" x\"").from), (" x".to_owned(), vec!["A".to_owned()]));
        assert_eq!(of("A=quiet splash # x").command.as_deref(), Some("splash"));
        assert_eq!(of("A='$B'").from, [""; 0]);
        assert!(of("A=\"quiet").open);
        for none in ["", "a b=c", "1=2", "=x", "if [ a = b ]"] {
            assert_eq!(assignment(none), None, "{none}");
        }
    }
}
