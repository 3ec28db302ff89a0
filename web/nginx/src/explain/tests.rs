use super::{Answers, ExplainedPlace, Explanation, explain};
use crate::compile::{Surroundings, compile};
use crate::source::ConfFiles;
use crate::{Configuration, Place};
use std::io;
use std::path::{Path, PathBuf};

struct One(Vec<u8>);

impl ConfFiles for One {
    fn read(&mut self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }

    fn matching(&mut self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn explained(http: &str) -> Explanation {
    let text = format!("events {{}}\nhttp {{ access_log off;\n{http}\n}}");
    let configuration = Configuration::read(&mut One(text.into_bytes()), Path::new("/c/nginx.conf"), b"").unwrap();
    let around = Surroundings { prefix: Path::new("/p"), hostname: "h", root: false, resolve: |_| Vec::new() };
    let compiled = compile(&configuration, around).unwrap();
    assert_eq!(compiled.places.iter().flatten().filter(|place: &&Place| place.line == 0).count(), 0);
    explain(&configuration, &compiled)
}

/// The place with this label of the only server.
fn place<'e>(explained: &'e Explanation, label: &str) -> &'e ExplainedPlace {
    let [server] = explained.servers.as_slice() else { panic!("{explained:?}") };
    server.places.iter().find(|place| place.label == label).expect(label)
}

/// What keeps all answers off the short way, and some.
fn by(place: &ExplainedPlace) -> (Vec<&str>, Vec<&str>) {
    assert_eq!(place.ready, place.kept_off.is_empty());
    let names = |reasons: &'_ [super::KeptOff]| reasons.iter().map(|one| one.by.clone()).collect::<Vec<_>>();
    let leak = |names: Vec<String>| names.into_iter().map(|name| &*name.leak()).collect();
    (leak(names(&place.kept_off)), leak(names(&place.kept_off_for_some)))
}

#[test]
fn what_keeps_answers_off_is_told_by_its_name() {
    let explained = explained(
        "map $http_accept $kind { ~webp w; default $cookie_c; } map $uri $of { ~x a; }
         server { server_name a ~^(?<sub>.)\\.b$; root /r;
           location /plain { add_header X $of; expires 1d; }
           location /field { add_header X $kind; }
           location /query { if ($arg_a) { return 302 /x$args; } }
           location /host { root /h/$host; }
           location /guarded { auth_basic r; auth_basic_user_file u; autoindex on; }
           location /moved { return 301 /y; }
           location /text { return 200 $remote_addr; }
           location /slow { limit_rate 1m; }
           location /late { limit_rate 1m; limit_rate_after 1m; }
           location /close { keepalive_timeout 0; }
           location /counters { stub_status; }
         }",
    );
    let kept = |label: &str| by(place(&explained, label));
    assert_eq!(kept("/plain"), (vec![], vec!["server_name"]));
    assert_eq!(kept("/field"), (vec!["$http_accept"], vec!["$cookie_c", "server_name"]));
    assert_eq!(kept("/query").0, Vec::<&str>::new());
    assert!(kept("/query").1.contains(&"$arg_a"));
    assert_eq!(kept("/host").0, ["$host"]);
    assert_eq!(place(&explained, "/host").folder, None);
    assert_eq!(kept("/guarded"), (vec!["auth_basic"], vec!["autoindex", "server_name"]));
    let slower: Vec<_> = place(&explained, "/guarded").slower.iter().map(|one| one.directive).collect();
    assert_eq!(slower, ["autoindex", "auth_basic"]);
    assert_eq!((kept("/moved").0, place(&explained, "/moved").answers), (vec!["return"], Answers::Return));
    assert_eq!(kept("/text").0, ["$remote_addr"]);
    assert_eq!((kept("/slow").0, kept("/late").0), (vec!["limit_rate"], vec![]));
    assert_eq!((kept("/close").0, kept("/counters").0), (vec!["keepalive_timeout"], vec!["stub_status"]));
}

/// Whoever is asked cuts no film.
#[test]
fn a_film_is_cut_where_files_answer() {
    let explained = explained(
        "server { location /files { mp4; } location /asked { mp4; proxy_pass http://127.0.0.1:1; }
         location /cut { proxy_pass http://127.0.0.1:1; mp4; } }",
    );
    let slower = |label| place(&explained, label).slower.iter().map(|one| one.directive).collect::<Vec<_>>();
    assert_eq!([slower("/files"), slower("/asked"), slower("/cut")], [vec!["mp4"], vec![], vec!["mp4"]]);
}

#[test]
fn a_servers_script_counts_for_its_locations_and_a_locations_for_its_ifs() {
    let explained = explained(
        "server { set $who $http_user_agent;
           location / { if ($cookie_a) { expires 1d; } if ($uri ~ x) { expires 2d; } } }",
    );
    let [server] = explained.servers.as_slice() else { panic!("{explained:?}") };
    for place in &server.places {
        assert_eq!(by(place).0, ["$cookie_a", "$http_user_agent"], "{}", place.label);
    }
    assert_eq!(server.places.len(), 3);
    assert_eq!(by(&server.settings).0, ["$http_user_agent"]);
}

#[test]
fn an_alias_without_a_slash_is_told() {
    let explained = explained(
        "server { location /a { alias /x/; location /a/b { } location ~ c { } } location ^~ /d { alias /x/; }
           location /e/ { alias /x/; } location = /f { alias /x/f/; } location /g { alias /x; }
           location ~ ^/h { alias /x/; } }",
    );
    let careful: Vec<_> = explained.servers[0].places.iter().filter(|one| one.alias_without_slash).collect();
    assert_eq!(careful.iter().map(|one| one.label.as_str()).collect::<Vec<_>>(), ["/a", "^~ /d"]);
    assert!(explained.to_string().contains("careful: the location ends without a slash"));
}

#[test]
fn all_of_it_is_there_for_programs() {
    let explained = explained("sendfile on; server { listen unix:/s; location / { root /r; add_header A $host; } }");
    assert_eq!(explained.listeners[0].address, "unix:/s");
    let [none] = explained.no_effect.as_slice() else { panic!("{explained:?}") };
    assert_eq!((none.directive, none.at.to_string().as_str()), ("sendfile", "/c/nginx.conf:3"));
    let root = place(&explained, "/");
    assert_eq!((root.answers, root.folder.as_deref()), (Answers::Root, Some("/r")));
    let told = explained.to_string();
    assert!(
        told.contains("  / at /c/nginx.conf:3\n    files, root /r\n    no answer is given ready: $host is"),
        "{told}"
    );
}
