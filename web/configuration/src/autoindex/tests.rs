use super::*;

/// What nginx 1.22 answered for [`folder`], a line for each format, escaped as
/// Rust does.
const ANSWERS: &str = include_str!("answers.txt");

/// 3 February 2001, 04:05:06.
const MODIFIED: i64 = 981_173_106;

fn folder() -> Vec<FolderEntry> {
    let entry = |name: &[u8], kind, size, modified| FolderEntry { name: name.into(), kind, size, modified };
    let file = |name: &[u8], size| entry(name, EntryKind::File, size, MODIFIED);
    let folder = |name: &[u8]| entry(name, EntryKind::Folder, 4_096, MODIFIED);
    vec![
        file(b"one\"two", 1),
        file(b"plain.txt", 2_000),
        entry(b"mid", EntryKind::File, 1_572_864, 1_798_761_599),
        file(b"big", 3_221_225_472),
        file(b"tenk", 10_000),
        entry(b"dangling", EntryKind::Other, 7, MODIFIED),
        entry(b"fifo", EntryKind::Other, 0, MODIFIED),
        file("ä".repeat(30).as_bytes(), 1),
        file("ä".repeat(55).as_bytes(), 1),
        file("x".repeat(50).as_bytes(), 1),
        file("y".repeat(51).as_bytes(), 1),
        file("<".repeat(60).as_bytes(), 1),
        folder("z".repeat(50).as_bytes()),
        folder("z".repeat(49).as_bytes()),
        folder(b"s u b"),
        file(b".hidden", 1),
        file(b"inv\xffalid", 1),
    ]
}

#[test]
fn lists_are_those_of_nginx() {
    let rules = AutoindexRules { on: true, ..AutoindexRules::default() };
    let short = AutoindexRules { exact_size: false, ..rules };
    let of = |format| AutoindexRules { format, ..rules };
    let answers: Vec<&str> = ANSWERS.lines().collect();
    for (at, rules, media_type) in [
        (1, rules, "text/html"),
        (2, short, "text/html"),
        (3, of(AutoindexFormat::Json), "application/json"),
        (4, of(AutoindexFormat::Jsonp), "application/javascript"),
        (5, of(AutoindexFormat::Xml), "text/xml"),
    ] {
        let path = format!("/{at}/a<b>&c/");
        let listed = Listed { path: path.as_bytes(), callback: Some(b"f.g_1"), utf8: at == 2, local_offset: 3_600 };
        let mut out = Vec::new();
        rules.write(&listed, &mut folder(), &mut out).expect("a callback");
        assert_eq!(out.escape_ascii().to_string(), answers[at - 1], "{at}");
        assert_eq!(rules.media_type(&listed).0, media_type.as_bytes());
    }
}

#[test]
fn a_list_may_be_empty() {
    let rules = AutoindexRules { format: AutoindexFormat::Jsonp, ..AutoindexRules::default() };
    let write = |callback: Option<&[u8]>| {
        let mut out = Vec::new();
        let listed = Listed { path: b"/", callback, utf8: false, local_offset: 0 };
        let written = rules.write(&listed, &mut Vec::new(), &mut out);
        written.map(|()| (String::from_utf8_lossy(&out).into_owned(), rules.media_type(&listed).0))
    };
    let plain = Ok(("[\r\n]".to_owned(), &b"application/json"[..]));
    assert_eq!((write(None), write(Some(b""))), (plain.clone(), plain));
    assert_eq!(write(Some(b"f")), Ok(("/* callback */\r\nf([\r\n]);".to_owned(), &b"application/javascript"[..])));
    for callback in [&b"f("[..], b"a b", b"<", &[b'f'; 129]] {
        assert_eq!(write(Some(callback)), Err(BadCallback));
    }
}

#[test]
fn times_may_be_local() {
    let rules = AutoindexRules { local_time: true, ..AutoindexRules::default() };
    let listed = Listed { path: b"/", callback: None, utf8: false, local_offset: -5 * 3_600 };
    let mut out = Vec::new();
    rules.write(&listed, &mut folder(), &mut out).expect("no callback");
    assert!(String::from_utf8_lossy(&out).contains(" 02-Feb-2001 23:05 "));
}

#[test]
fn one_file_is_chosen() {
    let folder = folder();
    let names: std::collections::BTreeSet<_> =
        (0..100).filter_map(|random| random_file(&folder, random)).map(|entry| entry.name.clone()).collect();
    assert_eq!(names.len(), 11, "files that have no dot before them");
    assert_eq!(random_file(&[], 7), None);
    assert_eq!(random_file(&folder[5..7], 7), None, "no file");
}
