//! Configurations, compiled to what becomes of requests.

use crate::Target;
use configuration::script::{Condition, Instruction};
use configuration::{Block, BlockId};
use features::Value;
use nginx::{Compiled, ConfFiles, Configuration, Surroundings, compile, explain};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) const TARGET: Target = Target {
    name: "nginx_compile",
    about: "what a configuration is compiled to names what is there, and is the same again",
    run,
    seeds,
    dictionary: &[
        b"server {",
        b"listen 81;",
        b"listen [::]:82 backlog=9 default_server;",
        b"server_name *.a ~^(?<b>.)$;",
        b"location ~ ^/(.*)x {",
        b"location @a {",
        b"limit_except GET {",
        b"if ($a ~ b) {",
        b"set $a $b;",
        b"rewrite ^ /x?y last;",
        b"return 200 $1;",
        b"try_files $uri $uri/ @a;",
        b"error_page 404 =200 @a;",
        b"map $uri $a {",
        b"geo $b {",
        b"10.0.0.0/8 a;",
        b"log_format a $uri;",
        b"access_log /x a if=$a;",
        b"limit_req_zone $uri zone=a:1m rate=1r/s;",
        b"limit_req zone=a;",
        b"add_header A $b always;",
        b"alias /x/;",
        b"}",
        b";",
        b"$",
    ],
    test_runs: 4_000,
    max_len: 600,
};

/// One text, in blocks that make it whole.
struct One(Vec<u8>);

impl ConfFiles for One {
    fn read(&mut self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        if path == Path::new("/nginx.conf") { Ok(self.0.clone()) } else { Err(io::Error::from_raw_os_error(2)) }
    }

    fn matching(&mut self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn compiled(input: &[u8]) -> Option<(Configuration, Compiled)> {
    let text = [b"events {} http {\n", input, b"\n}"].concat();
    let configuration = Configuration::read(&mut One(text), Path::new("/nginx.conf"), b"").ok()?;
    let around = Surroundings { prefix: Path::new("/p"), hostname: "h", root: true, resolve: |_| Vec::new() };
    match compile(&configuration, around) {
        Ok(compiled) => Some((configuration, compiled)),
        Err(why) => {
            assert!(!why.message.text.is_empty());
            None
        }
    }
}

fn run(input: &[u8]) {
    let Some((configuration, compiled)) = compiled(input) else { return };
    check(&compiled);
    let explained = explain(&configuration, &compiled).to_string();
    let (configuration, again) = self::compiled(input).expect("it was taken");
    assert_eq!(explained, explain(&configuration, &again).to_string());
}

/// Everything that is named is there.
fn check(compiled: &Compiled) {
    let program = &compiled.program;
    let block = |id: BlockId| assert!((id.0 as usize) < program.blocks.len(), "{id:?}");
    assert_eq!(compiled.places.len(), program.blocks.len());
    assert_eq!(compiled.sockets.len(), program.listeners.len());
    for server in &program.servers {
        block(server.block);
        if let Some(place) = server.locations.find(b"/x", |_| true) {
            block(BlockId(place));
        }
    }
    for listener in &program.listeners {
        assert!(listener.servers.iter().all(|server| usize::from(server.0) < program.servers.len()));
        let found = listener.names.find(b"q.a", |number, _| (number as usize) < program.expressions.len());
        assert!(usize::from(found) < listener.servers.len());
    }
    program.blocks.iter().for_each(|one| check_block(compiled, one));
}

fn check_block(compiled: &Compiled, one: &Block) {
    let program = &compiled.program;
    let value = |value: &Value| {
        assert!(value.variables().all(|number| program.variables.get(number).is_some()), "{value:?}");
    };
    let expression = |number: u32| assert!((number as usize) < program.expressions.len());
    for (at, instruction) in one.script.iter().enumerate() {
        match instruction {
            Instruction::If { condition, otherwise, settings } => {
                assert!((at + 1..=one.script.len()).contains(&(*otherwise as usize)));
                assert!(settings.is_none_or(|id| (id.0 as usize) < program.blocks.len()));
                match condition {
                    Condition::Matches { left, expression: number, .. } => {
                        value(left);
                        expression(*number);
                    }
                    Condition::True(left) | Condition::Equal { left, .. } | Condition::File { path: left, .. } => {
                        value(left);
                    }
                }
            }
            Instruction::Rewrite { expression: number, replacement, .. } => {
                expression(*number);
                value(replacement);
            }
            Instruction::Set { value: text, .. } => value(text),
            Instruction::Return { text, .. } => text.iter().for_each(value),
            Instruction::Break => {}
        }
    }
    value(&one.root.path);
    one.fields.added.iter().for_each(|field| value(&field.value));
    for log in &*one.logs {
        assert!(usize::from(log.log) < program.logs.len() && usize::from(log.format) < program.formats.len());
    }
    assert!(one.features.limits.requests.iter().all(|limit| usize::from(limit.zone) < program.declared.zones.len()));
}

fn seeds() -> Vec<Vec<u8>> {
    [
        &b"map $uri $m { ~x $1; default a; } server { listen 81; server_name a *.b; root /r;
           location / { set $a $m; if ($a) { add_header X $a; return 302 $a; } try_files $uri =404; } }"[..],
        b"limit_req_zone $remote_addr zone=z:1m rate=1r/s; log_format l '$uri'; access_log /l l;
          server { limit_req zone=z; error_page 404 =200 @n; location @n { return 204; } location = /i { internal; } }",
        b"geo $g { 10.0.0.0/8 1; } server { listen 81 default_server; location /a { alias /b; location ~ c { expires 1d; } } }",
    ]
    .map(<[u8]>::to_vec)
    .into()
}
