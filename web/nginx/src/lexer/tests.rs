use super::*;

type Told = (Vec<String>, End, u32);

fn read(text: &str) -> Result<Vec<Told>, (String, u32)> {
    let mut lexer = Lexer::new(text.as_bytes(), Text::File);
    let mut all = Vec::new();
    loop {
        let Statement { words, end, line } = lexer.next()?;
        if end == End::Text {
            return Ok(all);
        }
        all.push((words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect(), end, line));
    }
}

fn words(text: &str) -> Vec<String> {
    let mut all = read(text).unwrap();
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0).0
}

#[test]
fn statements_end_at_semicolons_and_braces() {
    let found = read("a b;\nserver{ # a comment; with {\n  listen 80;}\n").unwrap();
    let told: Vec<(&str, End, u32)> =
        found.iter().map(|(words, end, line)| (words.first().map_or("", String::as_str), *end, *line)).collect();
    assert_eq!(
        told,
        [("a", End::Semicolon, 1), ("server", End::Open, 2), ("listen", End::Semicolon, 3), ("", End::Close, 3)]
    );
}

#[test]
fn words_are_quoted_and_escaped_as_nginx_does() {
    assert_eq!(words(r#"a "b c" 'd "e"' f\ g;"#), ["a", "b c", "d \"e\"", "f\\ g"]);
    assert_eq!(words(r#"a "\"b\" \n\t\$x" c\;d;"#), ["a", "\"b\" \n\t\\$x", "c\\;d"]);
}

/// Blocks of Lua end at their brace, whatever is written in them.
#[test]
fn blocks_of_lua_are_passed_as_one() {
    for lua in [
        "",
        "ngx.say('hi')",
        "local t = { a = { 1 }, b = {} }\n",
        "ngx.say(\"}\") ngx.say('}') ngx.say(\"\\\"}\")",
        "-- it's a } brace\n ngx.say(1)",
        "--[[ } ' \n } ]] ngx.say([[ } ' ]])",
        "--[==[ ]] } ]==] local s = [=[ ]] } ]=]",
        "local n = #t; if a[b[1]] ~= '#' then return; end",
    ] {
        let text = format!("content_by_lua_block {{{lua}}} next;");
        let mut lexer = Lexer::new(text.as_bytes(), Text::File);
        assert_eq!(lexer.next().unwrap().end, End::Open, "{lua}");
        assert_eq!(lexer.pass_lua(), Ok(()), "{lua}");
        let lines = 1 + lua.bytes().filter(|byte| *byte == b'\n').count() as u32;
        let next = Statement { words: vec![b"next".to_vec()], end: End::Semicolon, line: lines };
        assert_eq!(lexer.next(), Ok(next), "{lua}");
    }
    for open in ["", "{ }", "'}", "[[ }", "--[==[ } ]]", "\"\\\"}", "-- }", "'\\"] {
        let mut lexer = Lexer::new(open.as_bytes(), Text::File);
        assert_eq!(lexer.pass_lua().unwrap_err().0, "unexpected end of file, expecting \"}\"", "{open}");
    }
}

#[test]
fn braces_behind_a_dollar_belong_to_the_word() {
    assert_eq!(words("return 200 ${host}x$uri;"), ["return", "200", "${host}x$uri"]);
    let found = read("if ($a = \"b\") {}").unwrap();
    assert_eq!(found[0].0, ["if", "($a", "=", "b", ")"]);
    assert_eq!(read("a#b c;").unwrap()[0].0, ["a#b", "c"]);
    assert_eq!(read("location ~ \\.php$ {}").unwrap()[0].0, ["location", "~", "\\.php$"]);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let end = "unexpected end of file, expecting \";\" or \"}\"";
    for (text, why, line) in [
        ("a\nb", end, 2),
        ("a \"b", end, 1),
        (";", "unexpected \";\"", 1),
        ("\n{", "unexpected \"{\"", 2),
        ("a }", "unexpected \"}\"", 1),
        ("a \"b\"c;", "unexpected \"c\"", 1),
    ] {
        assert_eq!(read(text).unwrap_err(), (why.to_owned(), line), "{text}");
    }
    let long = "x".repeat(WORD_MAX + 1);
    assert_eq!(
        read(&format!("\n{long};")).unwrap_err(),
        ("too long parameter \"xxxxxxxxxx...\" started".to_owned(), 2)
    );
    let quoted = format!("a \"{long}");
    assert!(read(&quoted).unwrap_err().0.ends_with("missing terminating \"\"\" character"));
    let mut parameter = Lexer::new(b"daemon off", Text::Parameter);
    assert_eq!(parameter.next().unwrap_err().0, "unexpected end of parameter, expecting \";\"");
}
