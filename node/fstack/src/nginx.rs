//! The `nginx.conf` of F-Stack's nginx: what becomes of each directive, and
//! the configuration that does the same here.
//!
//! What F-Stack's own directives say goes into the command line; everything
//! else is nginx's, and stays as it stands, comments and all. Files that it
//! includes are not opened. Sources: F-Stack's `app/nginx` (its README, and
//! `src/event/modules/ngx_ff_module.c`).

use crate::{Entry, Import, ImportError, Meaning, cores_of_mask, entries, value_of};
use core::ops::Range;
use serde::Serialize;

/// What becomes of one directive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Directive {
    /// From 1.
    pub line: usize,
    /// The directive, with its arguments.
    pub text: String,
    /// Whether it stays in the configuration.
    pub stays: bool,
    /// What it means for us.
    pub meaning: Meaning,
}

/// An `nginx.conf` beside its `f-stack.conf`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NginxImport {
    /// Its directives in their order.
    pub directives: Vec<Directive>,
    /// The configuration without what is F-Stack's.
    pub configuration: String,
    /// The command that serves it, word by word; the configuration's path is
    /// [`CONFIGURATION`].
    pub command: Vec<String>,
}

/// Stands in the command for the path of the configuration.
pub const CONFIGURATION: &str = "nginx.conf";

/// Reads an `nginx.conf`, beside the text of its `f-stack.conf`.
///
/// # Errors
/// [`ImportError`], for a line of either that cannot be read.
pub fn read_nginx(text: &str, stack: &str, import: &Import) -> Result<NginxImport, ImportError> {
    if text.len() > crate::LONGEST {
        return Err(ImportError::TooLong);
    }
    let entries = entries(stack)?;
    let found = statements(text)?;
    let mut directives = Vec::new();
    let mut configuration = String::new();
    let mut copied = 0;
    for one in &found {
        let (stays, meaning) = becomes(one, &entries);
        if !stays {
            configuration.push_str(text.get(copied..one.at.start).unwrap_or_default());
            configuration.push_str("# of F-Stack: ");
            // On one line, so that all of it is comment.
            configuration.push_str(&one.words.join(" "));
            copied = one.at.end;
            // What stands behind it on the line is not part of the comment.
            if text.get(copied..).is_some_and(|rest| !rest.trim_start_matches([' ', '\t', '\r']).starts_with('\n')) {
                configuration.push('\n');
            }
        }
        directives.push(Directive { line: one.line, text: one.words.join(" "), stays, meaning });
    }
    configuration.push_str(text.get(copied..).unwrap_or_default());
    Ok(NginxImport { directives, configuration, command: command(import) })
}

/// The command of the server of a folder, for nginx's configuration instead.
fn command(import: &Import) -> Vec<String> {
    let mut words: Vec<String> = ["nearside", "nginx", "-c", CONFIGURATION].map(str::to_owned).into();
    let mut rest = import.command.iter().skip(3);
    while let Some(word) = rest.next() {
        // worker_connections says how many there are.
        if word == "--max-connections" {
            rest.next();
        } else {
            words.push(word.clone());
        }
    }
    words
}

/// Whether a directive stays, and what it means here.
fn becomes(one: &Statement, entries: &[Entry<'_>]) -> (bool, Meaning) {
    let ours = |text: &str| Meaning::Option(text.to_owned());
    let nothing = |text: &str| Meaning::Nothing(text.to_owned());
    let warning = |text: &str| Meaning::Warning(text.to_owned());
    let [name, values @ ..] = one.words.as_slice() else { return (true, nothing("a block's end")) };
    let value = values.first().map_or("", String::as_str);
    match name.as_str() {
        "fstack_conf" => (false, ours("the command's --link, --addr, --silos and the like say what that file says")),
        "use" if value == "kqueue" => {
            (false, nothing("F-Stack's own imitation of kqueue; silos look at their links by themselves"))
        }
        "use" => (true, nothing("silos look at their links by themselves, whatever it says")),
        "schedule_timeout" => (false, nothing("how often F-Stack's loop calls nginx; a silo is one loop")),
        "kernel_network_stack" if value == "on" => (
            false,
            warning(
                "this server is to be reached through the host's own stack: give it to a second process, nearside \
                 nginx without --link, with a configuration of its own; here it would listen on the link",
            ),
        ),
        "proxy_kernel_network_stack" if value == "on" => (
            false,
            warning(
                "upstreams over the host's own stack: nearside dials addresses of the host by kernel sockets where \
                 the link has no way to them; see nearside nginx --plan",
            ),
        ),
        "kernel_network_stack" | "proxy_kernel_network_stack" => (false, nothing("off: over the link, as all else")),
        "worker_processes" => (true, of_workers(value, entries)),
        "worker_cpu_affinity" => (true, nothing("F-Stack goes by lcore_mask, and so does --silos in the command")),
        "worker_connections" => (true, ours("connections of a silo; --max-connections is not for nginx's form")),
        "sendfile" if value == "on" => {
            (true, nothing("F-Stack has none, whatever it says; files are served from memory here, on or off"))
        }
        "sendfile" => (true, nothing("off, as F-Stack has none; files are served from memory here, on or off")),
        "aio" | "directio" | "accept_mutex" | "multi_accept" => {
            (true, nothing("has no meaning over a link, with F-Stack as here"))
        }
        "listen" if value.starts_with("unix:") => {
            (true, warning("a socket of the host: F-Stack has none, and over a link it is not listened on"))
        }
        "listen" if values.iter().any(|word| word.starts_with("backlog=") || word == "reuseport") => {
            (true, nothing("over a link there is no accept queue: backlog and reuseport have no effect"))
        }
        "include" => (true, warning("is not opened here: F-Stack's directives may stand there, too")),
        "daemon" | "master_process" | "user" | "pid" => (true, nothing("nginx's own, as it stands")),
        _ if one.is_block => (true, nothing("nginx's own block")),
        _ => (true, nothing("nginx's own, as it stands: nearside nginx -t says whether it has an effect")),
    }
}

/// F-Stack wants a process for each core of its mask.
fn of_workers(value: &str, entries: &[Entry<'_>]) -> Meaning {
    let cores = value_of(entries, "dpdk", "lcore_mask").and_then(cores_of_mask).map_or(0, |cores| cores.len());
    match value.parse::<usize>() {
        Ok(count) if cores > 0 && count != cores => Meaning::Warning(format!(
            "lcore_mask has {cores} cores: with F-Stack as many processes must be asked for; --silos in the command \
             has the mask's"
        )),
        _ => Meaning::Nothing("--silos in the command says how many silos there are, and on which cores".to_owned()),
    }
}

/// A directive, where it stands.
struct Statement {
    line: usize,
    /// From its first character to its semicolon or brace.
    at: Range<usize>,
    words: Vec<String>,
    is_block: bool,
}

/// The most directives of a file.
const MOST: usize = 20_000;

/// The directives of an nginx.conf: quotes, escapes and comments as nginx has
/// them.
fn statements(text: &str) -> Result<Vec<Statement>, ImportError> {
    let (mut found, mut words, mut word) = (Vec::new(), Vec::<String>::new(), String::new());
    let (mut line, mut begun, mut start, mut depth) = (1, 1, 0, 0_usize);
    let mut quote = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let blank = words.is_empty() && word.is_empty();
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (_, '\\') => {
                if blank {
                    (begun, start) = (line, at);
                }
                if let Some((_, escaped)) = chars.next() {
                    word.push(escaped);
                    line += usize::from(escaped == '\n');
                }
            }
            (Some(_), char) => word.push(char),
            (None, '#') if word.is_empty() => while chars.next_if(|(_, char)| *char != '\n').is_some() {},
            (None, '"' | '\'') if word.is_empty() => {
                quote = Some(char);
                if blank {
                    (begun, start) = (line, at);
                }
            }
            (None, ';' | '{' | '}') => {
                words.extend((!word.is_empty()).then(|| core::mem::take(&mut word)));
                let wrong = |why| ImportError::Line { line: begun, why };
                match char {
                    '{' => depth += 1,
                    '}' if depth == 0 => {
                        return Err(ImportError::Line { line, why: "closes a block that none opened" });
                    }
                    '}' if !words.is_empty() => return Err(wrong("has no ; at its end")),
                    '}' => depth -= 1,
                    _ => {}
                }
                if !words.is_empty() {
                    let words = core::mem::take(&mut words);
                    found.push(Statement { line: begun, at: start..at + 1, words, is_block: char == '{' });
                }
                if found.len() > MOST {
                    return Err(wrong("one directive more than any configuration has"));
                }
            }
            (None, char) if char.is_whitespace() => {
                words.extend((!word.is_empty()).then(|| core::mem::take(&mut word)));
            }
            (None, char) => {
                if blank {
                    (begun, start) = (line, at);
                }
                word.push(char);
            }
        }
        line += usize::from(char == '\n');
    }
    match (quote, depth, words.is_empty() && word.is_empty()) {
        (None, 0, true) => Ok(found),
        (Some(_), ..) => Err(ImportError::Line { line: begun, why: "has a quote without an end" }),
        (None, 0, false) => Err(ImportError::Line { line: begun, why: "has no ; at its end" }),
        (None, ..) => Err(ImportError::Line { line, why: "ends within a block" }),
    }
}
