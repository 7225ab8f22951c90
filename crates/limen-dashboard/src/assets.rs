//! The files of the page, which are part of the binary.

/// A file and its type.
pub(crate) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    Some(match path {
        "/" => ("text/html; charset=utf-8", include_str!("page/index.html")),
        "/style.css" => ("text/css; charset=utf-8", include_str!("page/style.css")),
        "/actions.js" => (SCRIPT, include_str!("page/actions.js")),
        "/app.js" => (SCRIPT, include_str!("page/app.js")),
        "/ask.js" => (SCRIPT, include_str!("page/ask.js")),
        "/become.js" => (SCRIPT, include_str!("page/become.js")),
        "/explain.js" => (SCRIPT, include_str!("page/explain.js")),
        "/map.js" => (SCRIPT, include_str!("page/map.js")),
        "/land.js" => (SCRIPT, include_str!("page/land.js")),
        "/preview.js" => (SCRIPT, include_str!("page/preview.js")),
        "/share.js" => (SCRIPT, include_str!("page/share.js")),
        "/panels.js" => (SCRIPT, include_str!("page/panels.js")),
        "/icon.svg" => ("image/svg+xml", include_str!("page/icon.svg")),
        _ => return None,
    })
}
