use super::*;
use crate::drawing::COLOURS;
use crate::scale::{Range, nines};
use crate::text::{width, wrapped};

fn plain(value: f64) -> String {
    format!("{value:.0}")
}

fn chart(points: Vec<(f64, f64)>) -> Chart {
    Chart {
        title: "latency <p99>".into(),
        x: Axis::new("rate", AxisScale::Linear, plain),
        y: Axis::new("ms", AxisScale::Logarithmic, plain),
        series: vec![Series::new("p99", points), Series::default()],
    }
}

fn svg<const N: usize>(charts: [Chart; N]) -> String {
    svg_page(&charts.map(PagePart::from))
}

fn head(word: &str) -> PageHead {
    PageHead {
        title: "A & <b>".into(),
        of: "http://a/?x&y".into(),
        made: 1_785_000_000,
        verdict: PageVerdict { word: word.into(), reasons: vec!["because \"so\"".into()] },
        answer: vec!["found".into()],
        command: ["nearside", "load", "--find-max", "p99<5ms", "it's"].map(str::to_owned).into(),
        machine: vec![("processor".into(), "X".into()), ("kernel".into(), "Linux 6".into())],
    }
}

#[test]
fn a_curve_in_plain_characters() {
    let drawn = chart(vec![(0.0, 1.0), (500.0, 10.0), (1_000.0, 1_000.0), (100.0, 0.0)]).ascii();
    let lines: Vec<&str> = drawn.lines().collect();
    assert_eq!(lines[0], "latency <p99>");
    assert_eq!(lines[1].trim_end(), format!("1000 |{}*", " ".repeat(63)));
    assert_eq!(lines[16], "   1 |*");
    assert_eq!(lines[11], format!("     |{}*", " ".repeat(32)));
    assert_eq!(lines[18], format!("      0{:>63}", 1000));
    assert_eq!(drawn.matches('*').count(), 4, "zero has no place on a logarithmic axis:\n{drawn}");
}

#[test]
fn nothing_to_draw_is_drawn_empty_and_says_so() {
    let page = |points| {
        let mut page = Page::new(head("COMPLETE"));
        page.curves.push(chart(points).into());
        page.render()
    };
    for drawn in [page(vec![]), chart(vec![]).ascii(), page(vec![(1.0, f64::NAN)]), page(vec![(1.0, 0.0)])] {
        assert!(drawn.contains("(no points)"), "{drawn}");
    }
    for drawn in [page(vec![]), page(vec![(3.0, 3.0)]), page(vec![(0.0, f64::INFINITY), (1.0, 2.0)])] {
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}

#[test]
fn a_drawing_for_a_file_stands_by_itself() {
    let drawn = svg([chart(vec![(1.0, 2.0)]), chart(vec![(1.0, 2.0)])]);
    assert!(drawn.starts_with("<svg xmlns=") && drawn.contains("prefers-color-scheme: dark"), "{drawn}");
    // Curves without points are none.
    assert_eq!((drawn.matches("<svg ").count(), drawn.matches("<polyline").count()), (1, 2));
}

#[test]
fn what_does_not_count_is_a_cross_and_no_curve_goes_through_it() {
    let mut chart = chart(vec![(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]);
    chart.series[0].points[1].counts = false;
    chart.series[0].points[2].interval = Some((25.0, 35.0));
    let mut page = Page::new(head("COMPLETE"));
    page.curves.push(chart.into());
    let page = page.render();
    let curve = page.split("<polyline").nth(1).and_then(|rest| rest.split('"').nth(3)).expect("a curve");
    assert_eq!(curve.split(' ').count(), 2, "{curve}");
    for part in
        ["class=\"cross s0 d0\"", ">does not count</text>", ">interval</text>", "20, does not count", "30 (25 to 35)"]
    {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn of_a_run_that_does_not_count_the_largest_and_the_legend_are_crosses_too() {
    let mut chart = chart(vec![(1.0, 10.0), (2.0, 20.0)]);
    let series = Series { largest: Some(99.0), ..chart.series[0].clone() };
    chart.series = vec![series.clone(), series.counting(false)];
    let page = svg([chart.clone()]);
    assert!(page.contains(">p99: max 99</title>") && page.contains(">p99: max 99, does not count</title>"), "{page}");
    // Two of the points, one of the largest, and one of the legend's name, which says what it means.
    assert_eq!((page.matches("class=\"cross s1").count(), page.matches("class=\"mark s1").count()), (4, 0), "{page}");
    assert!(page.contains(">p99, does not count</text>") && !page.contains(">does not count</text>"), "{page}");
    assert_eq!(chart.table().rows.last(), Some(&["max", "99", "99, does not count"].map(str::to_owned).to_vec()));
}

/// Where the next bin is not the next one, no line is drawn; one that stands by itself is a dot.
#[test]
fn bins_are_joined_where_they_lie_beside_each_other() {
    let mut chart = chart(vec![(1.0, 10.0), (2.0, 20.0), (4.0, 30.0), (64.0, 30.0)]);
    assert_eq!(svg([chart.clone()]).matches("<polyline").count(), 1);
    chart.series[0] = chart.series[0].clone().of_bins(2.0);
    let drawn = svg([chart]);
    let points = drawn.split("<polyline").skip(1).filter_map(|one| one.split('"').nth(3));
    assert_eq!(points.map(|points| points.split(' ').count()).collect::<Vec<_>>(), [3, 2], "{drawn}");
}

#[test]
fn a_column_of_words_is_told_from_one_of_figures_and_what_there_is_not_is_left_out_of_lists() {
    // Of mixed cells the most decide.
    let rows = [
        ["a", "yes", "12 µs", "met"],
        ["b", "-", "-", "missed"],
        ["c", "no", "unknown", "met"],
        ["d", "0", "7", "met"],
    ];
    let table = PageTable::new("t", &["", "word", "figure", "verdict"]);
    let mut out = String::new();
    table.with(rows.map(|row| row.map(str::to_owned).to_vec())).write(&mut out, 12);
    for part in [
        "<th role=\"columnheader\" class=\"text\">word</th>",
        "<th role=\"columnheader\">figure</th>",
        "class=\"text nil\" data-head=\"word\"",
        "class=\"nil\" data-head=\"figure\"",
        "class=\"text bad\" data-head=\"verdict\"",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
}

#[test]
fn what_has_nothing_in_it_has_no_heading() {
    let mut page = Page::new(head("COMPLETE"));
    page.head.verdict.reasons.clear();
    page.curve(Chart::new("t", Axis::counts("x"), Axis::counts("y"), vec![Series::default()]));
    page.figure(PageTable::new("t", &["a"]));
    let text = page.render();
    assert!(!text.contains("<h2>Charts</h2>") && !text.contains("<h2>Figures</h2>"), "{text}");
    assert!(text.contains("nothing was found that speaks against these figures"), "{text}");
}

#[test]
fn lines_stand_at_round_values_and_at_points_where_these_are_few() {
    let ticks = |low: f64, high: f64, scale| Range::over([low, high].into_iter(), scale).map(|s| s.ticks());
    let linear = ticks(0.0, 1_000.0, AxisScale::Linear);
    assert_eq!(linear, Some(vec![0.0, 200.0, 400.0, 600.0, 800.0, 1_000.0]));
    assert_eq!(ticks(1.0, 100.0, AxisScale::Logarithmic), Some(vec![1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]));
    assert_eq!(ticks(1.0, 1e9, AxisScale::Logarithmic).map(|ticks| ticks.len()), Some(10));
    assert_eq!(ticks(21.0, 24.0, AxisScale::Logarithmic).map(|ticks| ticks.len() > 3), Some(true));
    let own = svg([chart(vec![(17.0, 1.0), (333.0, 10.0)])]);
    assert!(own.contains(">17</text>") && own.contains(">333</text>") && !own.contains(">200</text>"), "{own}");
}

#[test]
fn counts_are_whole_and_of_nothing_no_heights_are_told() {
    let drawn = |heights: [f64; 2]| {
        let points = [(1.0, heights[0]), (2.0, heights[1])];
        svg([Chart::new("t", Axis::counts("n"), Axis::counts("samples"), vec![Series::new("a", points)])])
    };
    let some = drawn([1.0, 2_500.0]);
    for part in [">2.00 k</text>", ">1</text>", "<title>a: 1, 1</title>", "<title>a: 2, 2.50 k</title>"] {
        assert!(some.contains(part), "{part}\n{some}");
    }
    assert!(!drawn([0.0, 0.0]).contains(">0.20</text>") && drawn([0.0, 0.0]).contains(">0</text>"));
}

#[test]
fn between_whole_counts_stands_no_line() {
    let drawn = |scale, low: f64, high: f64| {
        let y = Axis { scale, ..Axis::whole("samples") };
        svg([Chart::new("t", Axis::counts("n"), y, vec![Series::new("a", [(7.0, low), (8.0, high)])])])
    };
    let (factors, steps) = (drawn(AxisScale::Logarithmic, 1.0, 2.0), drawn(AxisScale::Linear, 0.0, 1.0));
    assert!(!factors.contains(">1.20</text>") && !steps.contains(">0.20</text>"), "{factors}{steps}");
    assert!(factors.contains(">1</text>") && factors.contains(">2</text>"), "{factors}");
    assert!(steps.contains(">0</text>") && steps.contains(">1</text>"), "{steps}");
}

/// Of ten samples and some more, no percentile with a name of its own can be told.
#[test]
fn percentiles_of_few_samples_have_places_too() {
    let places = [(0.0, 10.0), (0.2, 12.0)].map(|(share, time)| (nines(share), time));
    let few = |largest| Chart::by_percentile("t", vec![Series { largest, ..Series::new("a", places) }]);
    for drawn in [svg([few(None)]), svg([few(Some(30.0))])] {
        assert!(drawn.contains(">p0</text>") && drawn.contains(">p20</text>"), "{drawn}");
        assert!(!drawn.contains(">p50</text>"), "nothing lies there: {drawn}");
    }
}

#[test]
fn a_title_of_any_length_leaves_room_for_the_verdict_and_is_all_there() {
    let mut page = Page::new(head("INVALID"));
    page.head.title = "an experiment that tells all of itself at once ".repeat(20);
    let text = page.render();
    let first = text.split("<h1").nth(1).and_then(|rest| rest.split("</h1>").next()).expect("a title");
    assert!(first.chars().count() < 200 && first.ends_with('…'), "{first}");
    assert!(text.contains(&format!("<li dir=\"auto\">{}</li>", page.head.title)), "{text}");
}

#[test]
fn percentiles_are_as_wide_by_nine() {
    assert!((nines(0.999) - 3.0).abs() < 1e-9 && nines(0.0) == 0.0);
    let texts = [0.0, core::f64::consts::LOG10_2, 1.0, 3.0, 5.0].map(percentile);
    assert_eq!(texts, ["p0", "p50", "p90", "p99.9", "p99.999"]);
}

#[test]
fn a_curve_of_very_many_points_keeps_its_peaks() {
    let peak = |n: u32| if n == 7_777 { 1e6 } else { 1.0 };
    let many = chart((0..10_000).map(|n| (f64::from(n), peak(n))).collect());
    let mut page = Page::new(head("COMPLETE"));
    page.curves.push(many.into());
    let page = page.render();
    assert!(page.contains(">1000000</td>") && page.len() < 100_000, "{} bytes", page.len());
}

#[test]
fn long_names_are_broken_into_lines_and_never_cut() {
    let long = "a background of 1.00 M frames/s each way: probe A→B, averyveryveryveryveryverylongwordwithoutanyspace";
    let lines = wrapped(long, 12.0, 200.0);
    assert!(lines.len() > 2 && lines.iter().all(|line| width(line, 12.0) <= 200.0), "{lines:?}");
    assert_eq!(lines.concat().replace(' ', ""), long.replace(' ', ""));
    let mut two = chart(vec![(1.0, 2.0)]);
    two.series = vec![Series::new(format!("{long} A"), [(1.0, 2.0)]), Series::new(format!("{long} B"), [(1.0, 3.0)])];
    let drawn = svg([two]);
    assert!(drawn.contains(" A</text>") && drawn.contains(" B</text>"), "{drawn}");
}

/// What is drawn in a row: classes, places and widths in percent.
fn pieces(cell: &str) -> Vec<(String, f64, f64)> {
    let part = |piece: &str, before: &str, after: &str| {
        piece.split(before).nth(1).and_then(|rest| rest.split(after).next()).unwrap_or_default().to_owned()
    };
    let one = |piece: &str| {
        let number = |name: &str| part(piece, name, "%").parse().unwrap_or(f64::NAN);
        (part(piece, "class=\"", "\""), number("--at:"), number("--wide:"))
    };
    cell.split("<span").skip(1).map(one).collect()
}

#[test]
fn bars_begin_at_zero_and_ratios_stand_around_one() {
    let bar = |name: &str, value| Bar::new(name.to_owned(), 1, value, plain(value));
    let half = Bar { interval: Some((40.0, 60.0)), ..bar("<half>", 50.0) };
    let bars = [bar("all", 100.0), half, Bar { counts: false, ..bar("none", -7.0) }];
    let table = PageTable::bars("<Rates>", "per second", plain, &bars);
    let of = |row: usize, wanted: &str| {
        let found = pieces(&table.drawn[row]).into_iter().find(|(class, ..)| class.starts_with(wanted));
        found.unwrap_or_else(|| panic!("{wanted} in {}", table.drawn[row]))
    };
    let (all, half, none) = (of(1, "bar s1"), of(2, "bar s1"), of(3, "bar s1"));
    assert!(half.1 == all.1 && (all.2 - 2.0 * half.2).abs() < 0.1 * all.2, "{all:?} {half:?}");
    assert!(none.0.ends_with(" open") && none.2 == 0.0, "{none:?}");
    let interval = of(2, "interval");
    assert!((interval.1 + 0.5 * interval.2 - (half.1 + half.2)).abs() < 0.1, "{interval:?} is around {half:?}");
    assert_eq!(table.rows[2], ["none", "-7, does not count"]);
    let mut out = String::new();
    table.write(&mut out, 1);
    assert!(out.contains("<caption>&lt;Rates&gt;</caption>") && !out.contains("<summary>"), "never folded: {out}");
    assert!(out.contains("&lt;half&gt;") && out.matches("<td class=\"track\" aria-hidden=\"true\">").count() == 4);

    let ratio = |value, ends| Bar::ratio("a".to_owned(), Some(value), ends, ", faster");
    let rows = [ratio(2.0, Some((1.0, 4.0))), ratio(0.5, Some((1e-9, 1e9))), ratio(0.0, None), ratio(f64::NAN, None)];
    let rows: Vec<Bar> = rows.into_iter().flatten().collect();
    let table = PageTable::ratios("t", &rows, Some((0.98, 1.02)));
    assert_eq!(table.rows.len(), 2, "a ratio of nothing is none");
    assert_eq!(table.rows[0][1], "2.000 (1.000 to 4.000), faster");
    let drawn = pieces(&table.drawn[1]);
    let at = |wanted: &str| drawn.iter().find(|(class, ..)| class.starts_with(wanted)).expect("drawn").clone();
    let (band, one, mark) = (at("band"), at("one"), at("mark"));
    assert!(band.1 < one.1 && one.1 < band.1 + band.2 && one.1 < mark.1, "{drawn:?}");
    // An interval that is wider than a hundredfold is cut, and presses nothing.
    assert!(mark.1 - one.1 > 5.0 && pieces(&table.drawn[2]).iter().all(|(_, at, wide)| at + wide <= 100.01));
}

#[test]
fn labels_of_bars_have_room_in_the_narrowest_column() {
    let long = |value: f64| format!("{value:.0} frames/s");
    let head =
        PageTable::bars("t", "rate", long, &[Bar::new("a".to_owned(), 0, 987_654.0, "b".to_owned())]).drawn.remove(0);
    let labels: Vec<(f64, f64)> = head
        .split("--at:")
        .skip(1)
        .map(|rest| {
            let at: f64 = rest.split('%').next().and_then(|at| at.parse().ok()).expect("a place");
            let text = rest.split(['>', '<']).nth(1).expect("a label");
            (at / 100.0 * (320.0 - width(text, 12.0)), width(text, 12.0))
        })
        .collect();
    assert!(labels.len() > 1 && labels.windows(2).all(|two| two[0].0 + two[0].1 + 7.0 < two[1].0), "{head}");
}

#[test]
fn nothing_is_markup_and_nothing_turns_the_text() {
    let bad = "<script>alert('1')</script> & \"x\" \u{202e}abc\u{7}\u{0}\u{2066}";
    let safe = escaped(bad);
    assert_eq!(
        safe,
        "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;x&quot; \u{fffd}abc\u{fffd}\u{fffd}\u{fffd}"
    );
    assert_eq!(escaped("שלום عالم"), "שלום عالم");
}

#[test]
fn a_command_is_quoted_so_that_a_shell_has_the_same_words() {
    let words =
        ["printf", "%s\\n", "p99<5ms", "a b", "it's", "$HOME `id`", "", "*", "~x", "a;b", "-x\u{202e}'%d\\y\nz", "\\"];
    let words = words.map(str::to_owned);
    let said = std::process::Command::new("sh").args(["-c", &quoted(&words)]).output().expect("sh");
    assert_eq!(String::from_utf8(said.stdout).expect("text"), words[2..].join("\n") + "\n", "{}", quoted(&words));
    assert_eq!(quoted(&["nearside".into(), "--x=1,2".into()]), "nearside --x=1,2");
}

#[test]
fn a_page_has_its_head_first_and_its_results_come_out_again() {
    let mut page = Page::new(head("INVALID"));
    page.figures.push(PageTable::new("t", &["a", "b"]).with([vec!["1".to_owned(), "<2>".to_owned()]]).into());
    page.results = vec![("a\"b.json".into(), "{\"x\": \"</a>\"}".into()), ("b.json".into(), "ü\n".into())];
    let text = page.render();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}"));
    assert!(at("<strong>INVALID</strong>") < at("because &quot;so&quot;") && at("because") < at("&lt;2&gt;"));
    at("<span>--find-max</span> <span>&#39;p99&lt;5ms&#39;</span> <span>&#39;it&#39;\\&#39;&#39;s&#39;</span></code>");
    at("<dd>Sat, 25 Jul 2026 17:20:00 GMT</dd>");
    assert_eq!(results_in(&text), ["{\"x\": \"</a>\"}", "ü\n"]);
    assert!(results_in("<html>").is_empty() && results_in("href=\"data:application/json;base64,***\"").is_empty());
}

#[test]
fn a_table_that_is_wide_becomes_a_list_and_long_ones_are_folded() {
    let table = |columns: usize, rows: usize| {
        let heads: Vec<String> = (0..columns).map(|n| format!("column {n}")).collect();
        let mut page = Page::new(head("COMPLETE"));
        let row = |_: usize| vec!["123,456,789".to_owned(); columns];
        let table = PageTable::new("t", &heads.iter().map(String::as_str).collect::<Vec<_>>());
        page.figures.push(table.with((0..rows).map(row)).into());
        page.render()
    };
    for (columns, class) in [(2, "narrow"), (5, "middle"), (8, "broad"), (10, "wide"), (15, "list")] {
        assert!(table(columns, 1).contains(&format!("<table role=\"table\" class=\"{class}\">")), "{columns}");
    }
    let mut out = String::new();
    PageTable::pairs(
        "",
        ["", "value"],
        [("name", "what is told of it, and is longer than any column ".repeat(9))]
            .map(|(name, what)| (name.to_owned(), what)),
    )
    .write(&mut out, 1);
    assert!(out.contains("class=\"narrow\""), "two columns have room anywhere: {out}");
    assert!(table(2, 1_000).contains("<details><summary>t: 1,000 rows</summary><table"));
}

/// The contrast of two colours (WCAG 2.2, 1.4.3).
fn contrast(one: &str, other: &str) -> f64 {
    let light = |colour: &str| {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("hex")) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    };
    let (one, other) = (light(one), light(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_colour_is_read_in_light_and_in_dark() {
    for theme in COLOURS.split(":root").skip(1) {
        let of = |name: &str| {
            let rest = theme.split(&format!("--{name}: ")).nth(1).unwrap_or_else(|| panic!("{name}"));
            &rest[..7]
        };
        for paper in ["page", "card"] {
            for text in ["ink", "soft", "good", "mind", "bad", "link"] {
                let found = contrast(of(text), of(paper));
                assert!(found >= 4.5, "{text} on {paper}: {found:.2}");
            }
            for line in ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"] {
                let found = contrast(of(line), of(paper));
                assert!(found >= 3.0, "{line} on {paper}: {found:.2}");
            }
        }
        assert!(contrast(of("soft"), of("band")) >= 4.5, "text over the band");
    }
}

#[test]
fn what_no_machine_measures_leaves_room_for_the_rest() {
    let seconds = |value: f64| figures::seconds(value);
    let mut chart = chart(vec![(1.0, 2e6), (2.0, f64::MAX), (3.0, 1e18), (4.0, -f64::MAX)]);
    (chart.y.format, chart.y.scale) = (seconds, AxisScale::Linear);
    let drawn = svg([chart.clone()]);
    chart.series[0].points[0].interval = Some((-1.0, f64::MAX));
    chart.y.scale = AxisScale::Logarithmic;
    for drawn in [&drawn, &svg([chart])] {
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
    // Two points are drawn, and a label of their heights is no longer than the drawing has room for.
    assert_eq!(
        drawn.split("<polyline").nth(1).map(|curve| curve.split('"').nth(3).unwrap_or("").split(' ').count()),
        Some(2)
    );
    let longest =
        drawn.split("<text class=\"end\"").skip(1).map(|text| text.split(['>', '<']).nth(1).unwrap_or("").len());
    assert!(longest.max() <= Some(14), "{drawn}");
}

#[test]
fn verdicts_are_good_or_bad_by_their_words() {
    for (words, tone) in [
        ("COMPLETE", Tone::Good),
        ("PARTIAL", Tone::Mind),
        ("INVALID", Tone::Bad),
        ("NOT ALIKE", Tone::Bad),
        ("not measured", Tone::Mind),
        ("MISSED by core 1", Tone::Bad),
        ("does not count: stolen", Tone::Bad),
        ("worse than default", Tone::Bad),
        ("better", Tone::Good),
        ("inconclusive: fewer than 5 runs", Tone::Plain),
    ] {
        assert_eq!(Tone::of(words), tone, "{words}");
    }
}
