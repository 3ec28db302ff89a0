use super::*;
use std::collections::BTreeMap;

/// Files that are not on any disk.
#[derive(Default)]
struct Made(BTreeMap<PathBuf, Vec<u8>>);

impl Made {
    fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect())
    }
}

impl ConfFiles for Made {
    fn read(&mut self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        let text = self.0.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(2))?;
        if text.len() > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
    }

    fn matching(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let pattern = glob::Pattern::new(pattern).map_err(io::Error::other)?;
        Ok(self.0.keys().filter(|path| pattern.matches_path(path)).cloned().collect())
    }
}

fn read(files: &[(&str, &str)]) -> Result<Configuration, String> {
    Configuration::read(&mut Made::of(files), Path::new("/c/nginx.conf"), b"").map_err(|why| why.to_string())
}

fn refused(text: &str) -> String {
    read(&[("/c/nginx.conf", text)]).expect_err(text)
}

#[test]
fn blocks_and_includes_become_one_tree() {
    let configuration = read(&[
        ("/c/nginx.conf", "events {}\nhttp {\n types { include t; text/css css; }\n include sites/*.conf;\n}\n"),
        ("/c/t", "text/html html htm;"),
        ("/c/sites/b.conf", "server { listen 81; }"),
        ("/c/sites/a.conf", "server { listen 80; location / { if ($a) { return 403; } } }"),
    ])
    .unwrap();
    let http = &configuration.directives[1];
    let inside = http.block.as_ref().unwrap();
    let names: Vec<_> = inside.iter().map(|one| String::from_utf8_lossy(&one.name).into_owned()).collect();
    assert_eq!(names, ["types", "server", "server"]);
    let types = inside[0].block.as_ref().unwrap();
    assert_eq!((types[0].name.as_slice(), types[0].arguments.len(), types[0].rule), (&b"text/html"[..], 2, None));
    let server = &inside[1];
    assert_eq!(configuration.path(server.place.file), Some(Path::new("/c/sites/a.conf")));
    let location = &server.block.as_ref().unwrap()[1];
    let condition = &location.block.as_ref().unwrap()[0];
    let inner = condition.block.as_ref().unwrap()[0].rule.unwrap();
    assert_eq!((inner.name, inner.module), ("return", "rewrite"));
    assert!(configuration.dump().starts_with(b"# configuration file /c/nginx.conf:\nevents {}"));
}

#[test]
fn what_is_wrong_is_said_as_nginx_says_it() {
    for (text, said) in [
        ("foo on;", "[emerg] unknown directive \"foo\" in /c/nginx.conf:1"),
        ("events {", "[emerg] unexpected end of file, expecting \"}\" in /c/nginx.conf:1"),
        ("\nlisten 80;", "[emerg] \"listen\" directive is not allowed here in /c/nginx.conf:2"),
        ("user;", "[emerg] invalid number of arguments in \"user\" directive in /c/nginx.conf:1"),
        ("events;", "[emerg] directive \"events\" has no opening \"{\" in /c/nginx.conf:1"),
        ("daemon off {", "[emerg] directive \"daemon\" is not terminated by \";\" in /c/nginx.conf:1"),
        (
            "daemon no;",
            "[emerg] invalid value \"no\" in \"daemon\" directive, it must be \"on\" or \"off\" in /c/nginx.conf:1",
        ),
        ("pid a;\npid b;", "[emerg] \"pid\" directive is duplicate in /c/nginx.conf:2"),
        ("http { gzip_comp_level 10; }", "[emerg] value must be between 1 and 9 in /c/nginx.conf:1"),
        (
            "http { sendfile_max_chunk 1x; }",
            "[emerg] \"sendfile_max_chunk\" directive invalid value in /c/nginx.conf:1",
        ),
        ("http { satisfy some; }", "[emerg] invalid value \"some\" in /c/nginx.conf:1"),
        ("include gone;", "[emerg] open() \"/c/gone\" failed (2: No such file or directory) in /c/nginx.conf:1"),
        ("http { map $a $b { x {", "[emerg] unexpected \"{\" in /c/nginx.conf:1"),
        ("}", "[emerg] unexpected \"}\" in /c/nginx.conf:1"),
    ] {
        assert_eq!(refused(text), said, "{text}");
    }
    let gone = Configuration::read(&mut Made::default(), Path::new("/c/nginx.conf"), b"").unwrap_err();
    assert_eq!(gone.to_string(), "[emerg] open() \"/c/nginx.conf\" failed (2: No such file or directory)");
    let globals = |text: &[u8]| {
        let mut files = Made::of(&[("/c/nginx.conf", "pid a;")]);
        Configuration::read(&mut files, Path::new("/c/nginx.conf"), text).map_err(|why| why.to_string())
    };
    assert_eq!(globals(b"daemon off;").unwrap().directives.len(), 2);
    assert_eq!(globals(b"pid b;").unwrap_err(), "[emerg] \"pid\" directive is duplicate in /c/nginx.conf:1");
    assert_eq!(globals(b"foo;").unwrap_err(), "[emerg] unknown directive \"foo\" in command line");
    assert!(globals(b"events {}").unwrap_err().contains("block directives are not supported in -g option"));
}

/// One reason each, and what stands behind it is read.
#[test]
fn programs_in_lua_are_passed_over() {
    let text = "events {}\nhttp { init_by_lua_block { x = '}' }\nserver { location / {\n content_by_lua_block {\n \
                ngx.say(\"}\") -- it's { \n } } foo; } }\nstream { server { preread_by_lua_block { y = '{' } } }";
    let mut files = Made::of(&[("/c/nginx.conf", text)]);
    let all = Configuration::read_all(&mut files, Path::new("/c/nginx.conf"), b"");
    let said: Vec<String> = all.errors.iter().map(ToString::to_string).collect();
    let unknown = |name: &str, line: u32| format!("[emerg] unknown directive \"{name}\" in /c/nginx.conf:{line}");
    let wanted = [unknown("init_by_lua_block", 2), unknown("content_by_lua_block", 4), unknown("foo", 6)];
    assert_eq!((said, all.is_cut), (wanted.into(), false));
}

#[test]
fn what_some_of_several_words_repeats_is_a_warning() {
    let text = "http { gzip_proxied any any; }";
    let configuration = read(&[("/c/nginx.conf", text)]).unwrap();
    let said: Vec<String> = configuration.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["[warn] duplicate value \"any\" in /c/nginx.conf:1"]);
}

/// Files that include themselves, blocks without end: refused, whatever way
/// they take.
#[test]
fn circles_and_depths_end() {
    assert!(refused("include nginx.conf;").contains("\"/c/nginx.conf\" includes itself"));
    let circle = read(&[("/c/nginx.conf", "include a;"), ("/c/a", "include b;"), ("/c/b", "include a;")]).unwrap_err();
    assert_eq!(circle, "[emerg] \"/c/a\" includes itself in /c/b:1");
    let deep = format!("http {{ server {{ {} }} }}", "location / {".repeat(100_000));
    assert!(refused(&deep).contains("at most 128 deep"));
    // Each file names the next twice: 2^40 readings.
    let names: Vec<String> = (0..=40).map(|n| format!("/c/f{n}")).collect();
    let texts: Vec<String> = (1..=40).map(|n| format!("include f{n};include f{n};")).chain([String::new()]).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("/c/nginx.conf", "include f0;"));
    assert!(read(&files).unwrap_err().contains("too many files are included"));
}
