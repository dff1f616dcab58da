//! Random text, and cases with random changes, are read or refused.

use proptest::prelude::*;

use super::*;
use crate::keys::keys;

/// Returns the case from which random changes start, cut into words.
fn words(text: &str) -> Vec<String> {
    text.split_inclusive([' ', '\n', '=', '"', '.', '[', ']']).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 2000 } else { 20_000 }))]

    #[test]
    fn random_text_never_panics(text in "\\PC*", set in "\\PC*") {
        let _ = parse(&text, &[]);
        let _ = parse(MINIMAL, &[&set]);
    }

    #[test]
    fn random_toml_like_text_never_panics(text in "[\\[\\]a-c.=\"'0-9e_\\-+#{},\\n\\t é\u{0}]*") {
        let _ = parse(&text, &[]);
        let _ = parse(MINIMAL, &[&format!("grid.nx={text}"), &text]);
    }

    #[test]
    fn changed_cases_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_u8, "\\PC{0,6}"), 1..8),
        of_diffusion: bool,
    ) {
        let mut words = words(if of_diffusion { DIFFUSION } else { FULL });
        for (at, from, how, text) in changes {
            let (at, from) = (at.index(words.len()), from.index(words.len()));
            match how {
                0 => words[at] = text,
                1 => words[at] = words[from].clone(),
                2 => words.swap(at, from),
                _ => words[at].clear(),
            }
        }
        let _ = parse(&words.concat(), &[]);
    }

    #[test]
    fn changed_values_are_read_or_refused(
        key in prop::sample::select(keys()),
        value in prop_oneof![
            any::<f64>().prop_map(|x| format!("{x:e}")),
            any::<i64>().prop_map(|x| x.to_string()),
            "[a-z-]{1,12}",
            "\\PC{1,8}",
        ],
        of_diffusion: bool,
    ) {
        let set = format!("{key}={value}");
        if let Err(failure) = parse(if of_diffusion { DIFFUSION } else { FULL }, &[&set]) {
            let failure = failure.to_string();
            // The wrong value may be the one that contains the key.
            let parent = key.rsplit_once('.').map_or(&*key, |(parent, _)| parent);
            let names_it = ["--set", parent, "grid"].iter().any(|name| failure.contains(name));
            prop_assert!(names_it, "{failure}");
        }
    }
}
