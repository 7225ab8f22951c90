//! The pages, and the blocks in them.

use std::path::{Path, PathBuf};

/// A fenced block of a page.
pub(crate) struct Block {
    /// The page and the line, to find it by.
    pub(crate) place: String,
    /// The language, and what it is marked as.
    pub(crate) language: String,
    pub(crate) mark: Option<String>,
    pub(crate) text: String,
}

/// The folder of the whole project.
pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All files under a folder of the project that end so.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![project().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Every page: those of the root, of `docs` and `examples`, and the README of each crate.
pub(crate) fn pages() -> Vec<PathBuf> {
    let mut pages = [files("docs", "md"), files("examples", "md")].concat();
    for folder in [project(), project().join("crates")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let page = if path.is_dir() { path.join("README.md") } else { path };
            if page.extension().is_some_and(|ending| ending == "md") && page.is_file() {
                pages.push(page);
            }
        }
    }
    pages.sort();
    pages.dedup();
    pages
}

/// A path as a reader knows it.
pub(crate) fn name(path: &Path) -> String {
    path.strip_prefix(project()).unwrap_or(path).display().to_string()
}

/// The fenced blocks of all pages.
pub(crate) fn blocks() -> Vec<Block> {
    let read = |page: PathBuf| blocks_of(&name(&page), &std::fs::read_to_string(&page).unwrap());
    pages().into_iter().flat_map(read).collect()
}

fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => blocks.push(block),
            (Some(info), None) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                let language = words.next().unwrap_or_default();
                let place = format!("{page}:{}", index + 1);
                let (mark, text) = (words.next(), String::new());
                open = Some(Block { place, language, mark, text });
            }
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block is not closed");
    blocks
}

#[test]
fn blocks_are_found_with_their_marks() {
    let found = blocks_of("page", "text\n```yaml fragment\na: 1\n```\n```sh\nls\n```\n");
    let seen: Vec<_> = found
        .iter()
        .map(|block| (block.place.as_str(), block.language.as_str(), block.mark.as_deref()))
        .collect();
    assert_eq!(seen, [("page:2", "yaml", Some("fragment")), ("page:5", "sh", None)]);
    assert_eq!(found[0].text, "a: 1\n");
}
