use super::*;
use access_log::{Buffering, OpenFiles, SyslogServer};
use core::time::Duration;
use features::Compiling;
use features::Variables;
use std::path::Path;

/// Variable 0 stands for this, 1 for nothing at all.
struct One<'a>(&'a [u8]);

impl Variables for One<'_> {
    fn write_variable(&mut self, variable: u16, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(if variable == 0 { self.0 } else { b"" });
        variable == 0
    }

    fn write_capture(&mut self, _: u8, _: &mut Vec<u8>) {}
}

fn number(name: &[u8]) -> Option<u16> {
    [&b"uri"[..], b"http_none"].iter().position(|known| *known == name).map(|at| at as u16)
}

fn format(words: &[&str]) -> Result<LogFormat, String> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    LogFormat::parse(b"f", &words, &mut number)
}

fn written(format: &LogFormat, value: &[u8], before: &[u8]) -> Vec<u8> {
    let mut out = before.to_vec();
    format.write(&mut One(value), &mut out);
    out.split_off(before.len())
}

/// What nginx 1.22 wrote for `/a"\<byte>b` and the like.
#[test]
fn values_are_escaped_as_nginx_does() {
    let every: Vec<u8> = (0..=255).collect();
    for (escape, line) in [
        ("default", r#"[\x08\x09\x0A\x0C\x0D\x1F \x22#[\x5C]~\x7F\x80\xFF] - []"#),
        ("json", "[\\b\\t\\n\\f\\r\\u001F \\\"#[\\\\]~\u{7f}\u{fffd}\u{fffd}]  []"),
        ("none", "[\u{8}\t\n\u{c}\r\u{1f} \"#[\\]~\u{7f}\u{fffd}\u{fffd}]  []"),
    ] {
        let format = format(&[&format!("escape={escape}"), "[${uri}] $http_none ", "[]"]).expect("a format");
        let value = [8, 9, 10, 12, 13, 31, 32, 34, 35, 91, 92, 93, 126, 127, 128, 255];
        assert_eq!(String::from_utf8_lossy(&written(&format, &value, b"")), line, "{escape}");
    }
    // Whatever stands before, and however long it is.
    for kind in ["default", "json"] {
        let format = format(&[&format!("escape={kind}"), "$uri"]).expect("a format");
        for length in 1..40 {
            for byte in &every {
                for at in [0, length / 2, length - 1] {
                    let mut value = vec![b'a'; length];
                    value[at] = *byte;
                    let slow: Vec<u8> = value.iter().flat_map(|byte| one(kind == "json", *byte)).collect();
                    for before in [&b""[..], b"\"\\\n", b"\"\"\"\"\"\"\"\"\"\"\"\""] {
                        assert_eq!(written(&format, &value, before), slow, "{kind} {length} {byte}");
                    }
                }
            }
        }
    }
}

/// One byte, as nginx's tables have it.
fn one(json: bool, byte: u8) -> Vec<u8> {
    match byte {
        b'\\' | b'"' if json => vec![b'\\', byte],
        b'\n' if json => b"\\n".to_vec(),
        b'\r' if json => b"\\r".to_vec(),
        b'\t' if json => b"\\t".to_vec(),
        8 if json => b"\\b".to_vec(),
        12 if json => b"\\f".to_vec(),
        0..=31 if json => format!("\\u{byte:04X}").into_bytes(),
        0..=31 | b'"' | b'\\' | 127.. if !json => format!("\\x{byte:02X}").into_bytes(),
        _ => vec![byte],
    }
}

#[test]
fn formats_that_are_none_are_refused_in_nginxs_words() {
    for (words, said) in [
        (&["escape=x", "a"][..], "unknown log format escaping \"x\""),
        (&["a$"], "invalid parameter \"$\""),
        (&["a${"], "invalid parameter \"${\""),
        (&["$-b"], "invalid parameter \"$-b\""),
        (&["${}"], "invalid parameter \"${}\""),
        (&["${uri"], "the closing bracket in \"uri\" variable is missing"),
        (&["$none"], "unknown \"none\" variable"),
        (&["$1"], "unknown \"1\" variable"),
    ] {
        assert_eq!(format(words).expect_err("none"), said, "{words:?}");
    }
    assert_eq!(LogFormat::combined(&mut |_| Some(7)).expect("known").variables().count(), 8);
}

struct Compiler;

impl Compiling for Compiler {
    fn value(&mut self, text: &[u8]) -> Result<Value, String> {
        Value::parse(text, &mut number).map_err(|error| error.to_string())
    }

    fn expression(&mut self, _: &[u8], _: bool) -> Result<u32, String> {
        Ok(0)
    }
}

fn access_log(words: &str) -> Result<Option<AccessLogLine>, String> {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let mut resolve = |name: &str| (name == "here").then(|| "127.0.0.1".parse().unwrap());
    AccessLogLine::parse(&words, Path::new("/p"), &mut Compiler, &mut resolve)
}

#[test]
fn places_are_those_that_are_written() {
    let place = |words: &str| access_log(words).expect(words).expect("not off").target.place;
    assert_eq!(access_log("off"), Ok(None));
    assert_eq!(place("logs/a"), LogPlace::File { path: "/p/logs/a".into(), buffering: None });
    assert_eq!(place("/dev/stdout combined buffer=4k"), LogPlace::Stdout);
    let buffering = Buffering { bytes: 32 << 10, flush: Some(Duration::from_secs(5)), gzip: Some(9) };
    let file = LogPlace::File { path: "/a".into(), buffering: Some(buffering) };
    assert_eq!(place("/a combined buffer=32k flush=5s gzip=9"), file);
    let buffering = Buffering { bytes: 64 << 10, flush: None, gzip: Some(1) };
    assert_eq!(place("/a x gzip"), LogPlace::File { path: "/a".into(), buffering: Some(buffering) });
    let named = access_log("/a$uri combined if=$uri").expect("a log").expect("not off");
    assert!(named.condition.is_some() && named.target.path.is_some());
    assert_eq!(named.target.place, LogPlace::Named { open: None, symlinks: true });
    let LogPlace::Syslog(syslog) = place("syslog:server=here:12345,facility=local3,severity=error,tag=t_1,nohostname")
    else {
        panic!("a syslog server");
    };
    assert_eq!(syslog.server, SyslogServer::Udp("127.0.0.1:12345".parse().unwrap()));
    assert_eq!((syslog.facility, syslog.severity, &*syslog.tag, syslog.hostname), (19, 3, "t_1", false));
    let LogPlace::Syslog(syslog) = place("syslog:server=[::1]") else { panic!("a syslog server") };
    assert_eq!(syslog.server, SyslogServer::Udp("[::1]:514".parse().unwrap()));
    assert_eq!((syslog.facility, syslog.severity, &*syslog.tag, syslog.hostname), (23, 6, "nginx", true));
}

#[test]
fn places_that_are_none_are_refused_in_nginxs_words() {
    for (words, said) in [
        ("off x", "invalid parameter \"x\""),
        ("/a f buffer=0", "invalid buffer size \"0\""),
        ("/a f flush=x", "invalid flush time \"x\""),
        ("/a f gzip=10", "invalid compression level \"10\""),
        ("/a f flush=5s", "no buffer is defined for access_log \"/a\""),
        ("/a$uri f buffer=1k", "buffered logs cannot have variables in name"),
        ("syslog:server=here f buffer=1k", "logs to syslog cannot be buffered"),
        ("/a f sync", "invalid parameter \"sync\""),
        ("syslog:tag=a", "no syslog server specified"),
        ("syslog:server=here,server=here", "duplicate syslog \"server\""),
        ("syslog:server=nowhere.invalid", "host not found in syslog server \"nowhere.invalid\""),
        ("syslog:server=here:0", "invalid port in syslog server \"here:0\""),
        ("syslog:server=unix:", "no path in the unix domain socket in syslog server \"unix:\""),
        ("syslog:server=here,facility=x", "unknown syslog facility \"x\""),
        ("syslog:server=here,severity=err", "unknown syslog severity \"err\""),
        ("syslog:server=here,tag=a-b", "syslog \"tag\" only allows alphanumeric characters and underscore"),
        ("syslog:server=here,tag=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "syslog tag length exceeds 32"),
        ("syslog:server=here,x", "unknown syslog parameter \"x\""),
    ] {
        assert_eq!(access_log(words).expect_err(words), said, "{words}");
    }
    let files = |words: &str| open_log_file_cache(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    let (inactive, valid) = (Duration::from_secs(20), Duration::from_secs(60));
    assert_eq!(files("max=9 inactive=20s min_uses=2"), Ok(Some(OpenFiles { most: 9, inactive, valid, uses: 2 })));
    assert_eq!(files("off"), Ok(None));
    assert_eq!(files("valid=1m").expect_err("no max"), "\"open_log_file_cache\" must have \"max\" parameter");
    assert_eq!(files("max=x").expect_err("no number"), "invalid \"open_log_file_cache\" parameter \"max=x\"");
}
