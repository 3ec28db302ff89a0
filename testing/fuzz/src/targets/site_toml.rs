//! Sites in TOML: what they come to is read as it was written.

use crate::Target;
use nginx::Surroundings;
use site_toml::{SiteTomlError, as_nginx_conf, compile_site};
use std::path::Path;

pub(crate) const TARGET: Target = Target {
    name: "site_toml",
    about: "a site is refused at a place in it, or has its hosts and locations, whatever words have in them",
    run,
    seeds,
    dictionary: &[
        b"[[host]]\n",
        b"[[host.location]]\n",
        b"[limits.a]\nrate = \"1r/s\"\n",
        b"root = \"/r\"\n",
        b"path = \"/\"\n",
        b"match = '(.)'\n",
        b"headers = { A = \"b\" }\n",
        b"respond = { text = \"x\" }\n",
        b"try = [\"$uri\", \"=404\"]\n",
        b"redirect = \"/x\"\n",
        b"log = { to = \"stdout\", format = \"json\" }\n",
        b"types = { \"a/b\" = \"c\" }\n",
        b"compression = { gzip = true }\n",
        b"\\\"",
        b"; }",
        b"{",
        b"\\\\",
        b"$",
        b"\\n",
    ],
    test_runs: 2_000,
    max_len: 600,
};

fn run(input: &[u8]) {
    let Ok(text) = core::str::from_utf8(input) else { return };
    let path = Path::new("site.toml");
    let around = Surroundings { prefix: Path::new("/p"), hostname: "h", root: true, resolve: |_| Vec::new() };
    let told = |why: &SiteTomlError| {
        assert!(!why.text.is_empty());
        let lines = text.matches('\n').count() as u32 + 1;
        assert!(why.place.is_none_or(|place| (1..=lines).contains(&place.line) && place.column > 0), "{why}");
    };
    let conf = match as_nginx_conf(text, path) {
        Ok(conf) => conf,
        Err(why) => return told(&why),
    };
    // A word may be wrong where it stands; it never ends what it stands in.
    let site = match compile_site(text, path, around) {
        Ok(site) => site,
        Err(why) => return told(&why),
    };
    let begun = |what: &str| conf.lines().filter(|line| line.trim_start().starts_with(what)).count();
    let program = &site.compiled.program;
    assert_eq!(program.servers.len(), begun("server {"));
    assert!(program.blocks.len() <= program.servers.len() + begun("location "));
    let lines = text.matches('\n').count() as u32 + 1;
    assert!(site.compiled.places.iter().flatten().all(|place| (1..=lines).contains(&place.line)));
}

fn seeds() -> Vec<Vec<u8>> {
    [
        &b"log = \"stdout\"\n[[host]]\nroot = \"/r\"\n[[host.location]]\npath = \"/a\"\n\
           respond = { text = \"a; \\\"b\\\" }\" }\n"[..],
        b"[limits.a]\nrate = \"1r/s\"\n[[host]]\nlisten = [\"81\", 82]\n\
           limit = [{ by = \"a\", burst = 2 }]\nheaders = { A = \"$uri\" }\n",
        b"[[host]]\nnames = \"a\"\nrewrite = [{ from = '^/(.)', to = \"/$1\", then = \"last\" }]\n\
           [[host.location]]\nmatch = 'x'\nexpires = \"1d\"\n",
    ]
    .map(<[u8]>::to_vec)
    .into()
}
