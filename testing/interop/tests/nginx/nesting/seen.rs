//! What a probe is to show, found in answers of nginx and in its logs.

use crate::answer::Answer;
use std::fs;
use std::path::Path;

/// What `kind` of an answer is.
pub(crate) fn in_answer(answer: &Answer, kind: &str) -> String {
    match kind {
        "status" => format!("{:?}", answer.status()),
        "body" => String::from_utf8_lossy(&answer.plain_body()).into_owned(),
        "connection" => format!("{}", answer.lives),
        "trailers" => format!("{:?}", answer.trailers),
        "interim" => format!("{:?}", answer.interim),
        "log" | "errors" => String::new(),
        field => format!("{:?}", answer.field(field)),
    }
}

/// Lines about `host` in the logs of `side`, without what each has of its own.
pub(crate) fn in_logs(side: &Path, host: &str, kind: &str) -> String {
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let mut out = Vec::new();
    if kind == "errors" {
        for name in ["error.log", "other.log"] {
            let text = read(&side.join(name));
            let lines = text.lines().filter(|line| line.contains(host));
            out.extend(
                lines.map(|line| format!("{name}: {}", line.split_once("] ").map_or(line, |(level, _)| &level[20..]))),
            );
        }
    } else if kind == "log" {
        for name in ["access.log", "one.log", "two.log"] {
            let text = read(&side.join("logs").join(name));
            out.extend(
                text.lines()
                    .filter(|line| line.contains(host) || name == "two.log")
                    .map(|line| format!("{name}: {line}")),
            );
        }
    }
    out.join("\n")
}
