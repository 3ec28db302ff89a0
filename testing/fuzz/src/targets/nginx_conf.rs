//! Configurations in nginx's language.

use crate::Target;
use nginx::{ConfFiles, Configuration, Directive};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) const TARGET: Target = Target {
    name: "nginx_conf",
    about: "a configuration that is taken is the same when it is written anew",
    run,
    seeds,
    dictionary: &[
        b"{",
        b"}",
        b";",
        b"\"",
        b"'",
        b"\\",
        b"${",
        b"#",
        b"\n",
        b"events {}",
        b"http {",
        b"server {",
        b"location / {",
        b"if ($a) {",
        b"types {",
        b"map $a $b {",
        b"include a;",
        b"include *;",
        b"root /x;",
        b"gzip on;",
    ],
    test_runs: 20_000,
    max_len: 600,
};

/// The files of an input: all are the same text.
struct One<'a>(&'a [u8]);

impl ConfFiles for One<'_> {
    fn read(&mut self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        match path.to_str() {
            // The rest ends at once: else all readings of one input took too long.
            Some("/a") => Ok(b"user a;".to_vec()),
            Some("/nginx.conf") if self.0.len() <= most => Ok(self.0.to_vec()),
            _ => Err(io::Error::from_raw_os_error(2)),
        }
    }

    fn matching(&mut self, _pattern: &str) -> io::Result<Vec<PathBuf>> {
        Ok(vec![PathBuf::from("/a")])
    }
}

fn read(text: &[u8]) -> Option<Configuration> {
    match Configuration::read(&mut One(text), Path::new("/nginx.conf"), b"") {
        Ok(configuration) => Some(configuration),
        Err(why) => {
            assert!(!why.to_string().is_empty());
            None
        }
    }
}

fn run(input: &[u8]) {
    let Some(configuration) = read(input) else { return };
    let mut written = Vec::new();
    write(&configuration.directives, &mut written);
    let again = read(&written).unwrap_or_else(|| panic!("not taken again: {}", written.escape_ascii()));
    assert!(same(&configuration.directives, &again.directives), "{}", written.escape_ascii());
}

fn write(directives: &[Directive], text: &mut Vec<u8>) {
    for directive in directives {
        for word in [&directive.name].into_iter().chain(&directive.arguments) {
            text.push(b'"');
            for byte in word {
                if matches!(byte, b'"' | b'\\') {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            text.extend_from_slice(b"\" ");
        }
        match &directive.block {
            None => text.push(b';'),
            Some(block) => {
                text.push(b'{');
                write(block, text);
                text.push(b'}');
            }
        }
    }
}

/// Whether two are the same but for their places.
fn same(one: &[Directive], other: &[Directive]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(a, b)| {
            let blocks = match (&a.block, &b.block) {
                (Some(a), Some(b)) => same(a, b),
                (a, b) => a.is_none() && b.is_none(),
            };
            a.name == b.name && a.arguments == b.arguments && a.rule == b.rule && blocks
        })
}

fn seeds() -> Vec<Vec<u8>> {
    [
        &b"user a; events {} http { types { text/html html; } server { listen 80; location ~ \\.x$ { return 200 ${a}b; } } }"[..],
        b"http { map $a $b { default \"x y\"; ~^/ 'it\\'s'; include a; } gzip_proxied any auth; }",
        b"include *; # a comment\nhttp { server { if ($a = \"b\") { return 403; } } }",
    ]
    .map(<[u8]>::to_vec)
    .into()
}
