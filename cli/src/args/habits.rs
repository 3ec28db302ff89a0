//! What users of other load generators write by habit, answered with what to write here.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// The command that was meant, and what to write in the place of an option that it does not have.
pub fn answer(error: &clap::Error, arguments: &[OsString]) -> Option<(&'static str, String)> {
    if error.kind() != ErrorKind::UnknownArgument || arguments.get(1).is_none_or(|name| name != "load") {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let value = value(option, arguments);
    Some(("load", instead(option, value.as_deref())?))
}

/// As `-t4`, `-t 4`, `--script=x`.
fn value(option: &str, arguments: &[OsString]) -> Option<String> {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let place = words.iter().position(|word| {
        word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('=') || option.len() == 2)
    })?;
    let rest = words.get(place)?.strip_prefix(option)?.trim_start_matches('=');
    let next = || words.get(place + 1).filter(|next| !next.starts_with('-')).copied();
    (!rest.is_empty()).then_some(rest).or_else(next).map(str::to_owned)
}

fn instead(option: &str, value: Option<&str>) -> Option<String> {
    let of = |usual| value.unwrap_or(usual);
    Some(match option {
        "-t" => format!(
            "-t is wrk's and h2load's: write --threads {} (without it, there is one for each core). ab's -t, a limit \
             of time, is --duration",
            of("N")
        ),
        "-s" | "--script" => format!(
            "{option} is wrk's, and runs Lua, which there is none of here: write --method, --body and --header for \
             what a script sets, --urls FILE for several requests, --template for parts that change ({{{{counter}}}}, \
             {{{{random:1..9}}}}, {{{{csv:COLUMN}}}}), --want-status and --want-body for answers that are looked at{}",
            value.map_or_else(String::new, |file| format!(" in the place of {file}"))
        ),
        "-R" => format!("-R is wrk2's: write --rate {}", of("RATE")),
        "-L" | "--latency" | "-U" | "--u_latency" => {
            format!(
                "{option} is wrk's: leave it out, the distribution of latencies is always printed (--as wrk: as there)"
            )
        }
        "-z" => format!("-z is hey's: write --duration {}", of("TIME")),
        "-q" => format!("-q is hey's, for each worker: write --rate {} for all connections together", of("RATE")),
        "-p" => format!("-p is ab's: write --method POST --body @{}", of("FILE")),
        "-T" => format!("-T is ab's and hey's: write --header 'Content-Type: {}'", of("TYPE")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::args::parse;

    #[test]
    fn what_other_generators_have_is_answered_with_what_to_write() {
        for (line, told) in [
            ("load -t4 -c8 http://a/", "write --threads 4 ("),
            ("load -c8 -t 4 http://a/", "write --threads 4 ("),
            ("load http://a/ -t", "write --threads N ("),
            ("load -s post.lua http://a/", "in the place of post.lua"),
            ("load http://a/ --script=post.lua", "in the place of post.lua"),
            ("load http://a/ -R 2000", "write --rate 2000"),
            ("load http://a/ --latency", "always printed"),
            ("load http://a/ -z 10s", "write --duration 10s"),
            ("load http://a/ -q5", "write --rate 5"),
            ("load http://a/ -p form", "--method POST --body @form"),
            ("load http://a/ -T text/plain", "'Content-Type: text/plain'"),
            ("load http://a/ --unheard", "unexpected argument '--unheard'"),
            ("status -t 4", "unexpected argument '-t'"),
        ] {
            let words = core::iter::once("nearside").chain(line.split(' '));
            let why = parse(words).map(|_| ()).expect_err(line).to_string();
            assert!(why.contains(told), "{line}: {why}");
        }
    }
}
