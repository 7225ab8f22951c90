//! What an API server has said, or why it could not be asked, in words for a person.

use std::error::Error;
use std::io;

use kube::client::AuthError;

use crate::unreadable_yaml;

/// Why a request failed: the server's own words, or the last cause, which says most.
pub fn error_text(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return match status.message.is_empty() {
            true => format!("{} ({})", status.reason, status.code),
            false => status.message.clone(),
        };
    }
    let mut last: &(dyn Error + 'static) = error;
    while let Some(cause) = cause(last) {
        last = cause;
        // What a program prints to log in with is a secret.
        match cause.downcast_ref() {
            Some(AuthError::AuthExecParse(error)) => {
                let why = unreadable_yaml(error);
                return format!("what the program in users[].exec prints is no credential: {why}");
            }
            Some(AuthError::AuthExecRun { cmd, out }) => {
                let said = String::from_utf8_lossy(&out.stderr);
                return format!(
                    "{cmd}, by which to log in, failed: {}: {}",
                    out.status,
                    said.trim()
                );
            }
            _ => {}
        }
    }
    last.to_string()
}

/// What is behind an error. What an I/O error holds is not its source, and yet behind it.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match held {
        Some(held) => Some(held),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_matter_are_said_and_nothing_else() {
        let status = |message: &str| kube::core::Status {
            code: 403,
            reason: "Forbidden".to_owned(),
            message: message.to_owned(),
            ..kube::core::Status::default()
        };
        let refused = kube::Error::Api(Box::new(status("clusters \"asia\" is forbidden")));
        assert_eq!(error_text(&refused), "clusters \"asia\" is forbidden");
        assert_eq!(error_text(&kube::Error::Api(Box::new(status("")))), "Forbidden (403)");
        let inner = io::Error::from(io::ErrorKind::ConnectionRefused);
        let away = kube::Error::Service(Box::new(io::Error::other(inner)));
        assert_eq!(error_text(&away), "connection refused");
        let printed = "status:\n  token: hunter2\n token: hunter3\n";
        let wrong = serde_saphyr::from_str::<serde_json::Value>(printed).unwrap_err();
        let said = error_text(&kube::Error::Auth(AuthError::AuthExecParse(Box::new(wrong))));
        assert!(!said.contains("hunter") && said.contains("users[].exec"), "{said}");
    }
}
