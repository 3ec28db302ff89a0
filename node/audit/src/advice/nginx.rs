//! `nginx.conf`: the directives by which it asks something of the node.

use super::setting::{AdviceError, FileForm, Setting};

/// Directives whose meaning depends on the machine, or that say how the
/// kernel is asked.
const DIRECTIVES: &[&str] = &[
    "worker_processes",
    "worker_connections",
    "worker_rlimit_nofile",
    "worker_cpu_affinity",
    "worker_priority",
    "multi_accept",
    "accept_mutex",
    "use",
    "sendfile",
    "tcp_nopush",
    "tcp_nodelay",
    "aio",
    "directio",
    "keepalive_timeout",
    "keepalive_requests",
    "reset_timedout_connection",
    "access_log",
    "open_file_cache",
    "timer_resolution",
    "thread_pool",
    "pcre_jit",
    // Of F-Stack's nginx, for which some of those above mean something else.
    "fstack_conf",
    "kernel_network_stack",
    "proxy_kernel_network_stack",
    "schedule_timeout",
];

/// Parameters of `listen` that are the kernel's.
const OF_LISTEN: &[&str] = &["backlog", "reuseport", "fastopen", "deferred", "rcvbuf", "sndbuf", "so_keepalive"];

/// Whether a text looks like nginx's: blocks and semicolons.
pub(super) fn looks_like_one(text: &str) -> bool {
    let has = |word: &str| text.lines().any(|line| line.trim_start().starts_with(word));
    (has("events") || has("http") || has("worker_processes") || has("server"))
        && text.contains(';')
        && text.contains('{')
        || has("worker_processes ")
}

/// The directives of a file that say something of the node. A `listen` with
/// nothing of the kernel's is there all the same: that is its default.
pub(super) fn nginx(file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
    let mut settings = Vec::new();
    for Directive { line, words } in directives(file, text)? {
        let [name, values @ ..] = words.as_slice() else { continue };
        let add = |settings: &mut Vec<Setting>, key: String, subject: &str, value: String| {
            settings.push(Setting {
                key,
                value,
                subject: subject.to_owned(),
                file: file.to_owned(),
                line,
                form: FileForm::Nginx,
                within: Vec::new(),
            });
        };
        if name == "listen" {
            let subject = values.first().map_or("", String::as_str);
            let mut kernels = 0;
            for word in values.iter().skip(1) {
                let (key, value) = word.split_once('=').unwrap_or((word, "on"));
                if OF_LISTEN.contains(&key) {
                    kernels += 1;
                    add(&mut settings, format!("nginx listen {key}"), subject, value.to_owned());
                }
            }
            if kernels == 0 {
                add(&mut settings, "nginx listen".to_owned(), subject, "as it comes".to_owned());
            }
        } else if DIRECTIVES.contains(&name.as_str()) {
            add(&mut settings, format!("nginx {name}"), "", values.join(" "));
        }
    }
    Ok(settings)
}

struct Directive {
    line: usize,
    words: Vec<String>,
}

/// Every directive, of blocks too, with the line of its name.
fn directives(file: &str, text: &str) -> Result<Vec<Directive>, AdviceError> {
    let wrong = |line, why: &str| AdviceError::Line { file: file.to_owned(), line, why: why.to_owned() };
    let (mut found, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut begun, mut depth) = (1, 1, 0_usize);
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let end_word = |words: &mut Vec<String>, word: &mut String| {
            if !word.is_empty() {
                words.push(core::mem::take(word));
            }
        };
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (Some(_), '\\') => word.extend(chars.next()),
            (Some(_), char) => word.push(char),
            (None, '"' | '\'') if word.is_empty() => quote = Some(char),
            (None, '\\') => word.extend(chars.next()),
            (None, '#') if word.is_empty() => {
                while chars.peek().is_some_and(|char| *char != '\n') {
                    chars.next();
                }
            }
            (None, ';' | '{' | '}') => {
                end_word(&mut words, &mut word);
                match char {
                    '{' => depth += 1,
                    '}' if depth == 0 => return Err(wrong(line, "closes a block that none opened")),
                    '}' if !words.is_empty() => return Err(wrong(begun, "has no ; at its end")),
                    '}' => depth -= 1,
                    _ => {}
                }
                if !words.is_empty() {
                    found.push(Directive { line: begun, words: core::mem::take(&mut words) });
                }
            }
            (None, char) if char.is_whitespace() => end_word(&mut words, &mut word),
            (None, char) => {
                if words.is_empty() && word.is_empty() {
                    begun = line;
                }
                word.push(char);
            }
        }
        line += usize::from(char == '\n');
    }
    match (quote, depth, words.is_empty() && word.is_empty()) {
        (Some(_), ..) => Err(wrong(begun, "has a quote without an end")),
        (None, 0, true) => Ok(found),
        (None, 0, false) => Err(wrong(begun, "has no ; at its end")),
        (None, ..) => Err(wrong(line, "ends within a block")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_of_all_blocks_are_found_with_their_lines() {
        let text = "worker_processes auto; # of cores\nevents { worker_connections 1024; }\nhttp {\n  \
            log_format a '$x; {y}';\n  \
                    server {\n    listen 80 backlog=511 reuseport;\n    listen [::]:80;\n    location ~ \\.php$ \
                    { sendfile on; }\n  }\n}\n";
        let found: Vec<(String, String, usize)> = nginx("nginx.conf", text)
            .expect("directives")
            .into_iter()
            .map(|one| (one.key, one.value, one.line))
            .collect();
        let one = |key: &str, value: &str, line| (key.to_owned(), value.to_owned(), line);
        assert_eq!(
            found,
            [
                one("nginx worker_processes", "auto", 1),
                one("nginx worker_connections", "1024", 2),
                one("nginx listen backlog", "511", 6),
                one("nginx listen reuseport", "on", 6),
                one("nginx listen", "as it comes", 7),
                one("nginx sendfile", "on", 8),
            ]
        );
    }

    #[test]
    fn wrong_files_are_told_with_their_line() {
        let why = |text: &str| nginx("n", text).expect_err("wrong").to_string();
        assert_eq!(why("a 1;\n}"), "n:2: closes a block that none opened");
        assert_eq!(why("events {\n"), "n:2: ends within a block");
        assert_eq!(why("events {\n worker_connections 5\n}"), "n:2: has no ; at its end");
        assert_eq!(why("a 'b;\n"), "n:1: has a quote without an end");
        assert_eq!(why("a 1;\nb 2"), "n:2: has no ; at its end");
    }
}
