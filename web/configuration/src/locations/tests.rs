use super::*;

fn at(pattern: Pattern, place: u32, inner: Vec<Location>) -> Location {
    Location { pattern, place, slashless: false, inner }
}

fn prefix(path: &str, place: u32) -> Location {
    at(Pattern::Prefix(path.into()), place, Vec::new())
}

fn exact(path: &str, place: u32) -> Location {
    at(Pattern::Exact(path.into()), place, Vec::new())
}

fn firm(path: &str, place: u32) -> Location {
    at(Pattern::FirmPrefix(path.into()), place, Vec::new())
}

fn expression(number: u32, place: u32) -> Location {
    at(Pattern::Expression(number, b"x".to_vec()), place, Vec::new())
}

/// Expression 0 is `\.css$`, 1 is `/b/`.
fn find(locations: &Locations, path: &str) -> Option<u32> {
    locations.find(path.as_bytes(), |number| match number {
        0 => path.ends_with(".css"),
        _ => path.contains("/b/"),
    })
}

#[test]
fn the_example_of_nginxs_manual() {
    let all = [exact("/", 1), prefix("/", 2), prefix("/documents/", 3), firm("/images/", 4), expression(0, 5)];
    let locations = Locations::compile(&all).unwrap();
    for (path, place) in
        [("/", 1), ("/index.html", 2), ("/documents/document.html", 3), ("/images/1.css", 4), ("/documents/1.css", 5)]
    {
        assert_eq!(find(&locations, path), Some(place), "{path}");
    }
    assert_eq!(find(&Locations::compile(&all[2..4]).unwrap(), "/x"), None);
    assert_eq!(find(&Locations::default(), "/"), None);
}

#[test]
fn the_longest_prefix_is_found_past_others_that_lie_between() {
    let paths = ["/", "/a", "/a/b", "/a/b/c", "/a/bb", "/aa/", "/a/b/d"];
    let all: Vec<_> = paths.iter().enumerate().map(|(place, path)| prefix(path, place as u32)).collect();
    let locations = Locations::compile(&all).unwrap();
    for (path, place) in [
        ("/a/b/cc", 3),
        ("/a/b/", 2),
        ("/a/b/x/y", 2),
        ("/a/bz", 2),
        ("/a/z", 1),
        ("/ab", 1),
        ("/aa", 1),
        ("/aa/x", 5),
        ("/z", 0),
    ] {
        assert_eq!(find(&locations, path), Some(place), "{path}");
    }
}

#[test]
fn what_a_location_holds_comes_before_expressions_outside() {
    let inner = vec![exact("/a/x.css", 10), expression(1, 11), firm("/a/f", 12)];
    let all = [at(Pattern::Prefix(b"/a/".to_vec()), 1, inner), expression(0, 2), expression(1, 3), firm("/c", 4)];
    let locations = Locations::compile(&all).unwrap();
    for (path, place) in [
        ("/a/x.css", Some(10)),
        ("/a/b/x", Some(11)),
        ("/a/b/x.css", Some(11)),
        ("/a/y.css", Some(2)),
        // One that is held forbids only what is held beside it.
        ("/a/f.css", Some(2)),
        ("/a/f", Some(12)),
        ("/x/b/", Some(3)),
        ("/c/b/", Some(4)),
        ("/x", None),
    ] {
        assert_eq!(find(&locations, path), place, "{path}");
    }
}

#[test]
fn locations_that_cannot_stand_so_are_refused() {
    let refused = |all: &[Location]| Locations::compile(all).unwrap_err();
    assert_eq!(refused(&[prefix("/a", 1), firm("/a", 2)]), LocationError::Duplicate(2));
    assert_eq!(refused(&[exact("/a", 1), exact("/a", 2)]), LocationError::Duplicate(2));
    assert!(Locations::compile(&[exact("/a", 1), prefix("/a", 2)]).is_ok());
    let holding = |pattern: Pattern, inner: Location| refused(&[at(pattern, 1, vec![inner])]);
    assert_eq!(holding(Pattern::Exact(b"/a".to_vec()), prefix("/a", 2)), LocationError::InExact(2));
    assert_eq!(holding(Pattern::Named(b"n".to_vec()), prefix("/a", 2)), LocationError::InNamed(2));
    let named = |place| at(Pattern::Named(b"n".to_vec()), place, Vec::new());
    assert_eq!(holding(Pattern::Prefix(b"/a".to_vec()), named(2)), LocationError::NamedWithin(2));
    assert_eq!(holding(Pattern::Prefix(b"/a".to_vec()), exact("/b", 2)), LocationError::Outside(2));
    assert_eq!(holding(Pattern::Expression(0, b"^/a".to_vec()), prefix("/a", 2)), LocationError::Outside(2));
    assert_eq!(refused(&[named(1), named(2)]), LocationError::Duplicate(2));
    assert_eq!(Locations::compile(&[named(7)]).unwrap().named(b"n"), Some(7));
}

#[test]
fn some_are_found_without_their_slash() {
    let slashless = |location: Location| Location { slashless: true, ..location };
    let all = [
        slashless(prefix("/a/", 1)),
        slashless(firm("/b/", 2)),
        exact("/b", 3),
        slashless(prefix("/c/", 4)),
        prefix("/c", 5),
        slashless(exact("/d/", 6)),
        prefix("/e/", 7),
        slashless(prefix("/f", 8)),
        expression(0, 9),
        slashless(prefix("/g.css/", 10)),
        slashless(prefix("/", 11)),
        at(Pattern::Prefix(b"/h/".to_vec()), 12, vec![slashless(prefix("/h/", 13)), slashless(prefix("/h/i/", 14))]),
    ];
    let locations = Locations::compile(&all).unwrap();
    for (path, place) in [
        ("/a", 1),
        ("/ab", 11),
        ("/b", 3),
        ("/c", 5),
        ("/d", 6),
        ("/e", 11),
        ("/f", 8),
        ("/g.css", 10),
        ("/x.css", 9),
        ("/h", 11),
        ("/h/i", 14),
        ("/h/j", 13),
    ] {
        assert_eq!(find(&locations, path), Some(place), "{path}");
    }
}
