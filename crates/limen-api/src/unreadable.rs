//! What is wrong with text that may hold secrets, without a word of the text.
//!
//! A parser likes to show the lines around a mistake, or the value that it did not expect. What it
//! says of a credential ends in logs and in the status of objects, where others read it.

use kube::config::KubeconfigError;

/// Why a kubeconfig cannot be used.
pub fn unreadable_kubeconfig(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => unreadable_yaml(error),
        // The others name contexts, files and addresses.
        other => other.to_string(),
    }
}

/// Why YAML cannot be read: that it is not what it should be, and where.
pub fn unreadable_yaml(error: &serde_saphyr::Error) -> String {
    match error.location() {
        Some(at) => format!(
            "it is not the YAML that it should be: line {}, column {}",
            at.line(),
            at.column()
        ),
        None => "it is not the YAML that it should be".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    #[test]
    fn nothing_of_a_kubeconfig_is_said() {
        for text in [
            "apiVersion: v1\nusers:\n- name: a\n  user:\n    token: hunter2\n   client-key-data: hunter3\n",
            "users: hunter2\n",
            "users:\n- name: a\n  user: hunter2\n",
            "users:\n- name: a\n  user: {token: [hunter2]}\n",
            "token: \"hunter2\ncurrent-context: a\n",
        ] {
            let error = Kubeconfig::from_yaml(text).expect_err(text);
            assert!(error.to_string().contains("hunter"), "the parser says nothing of {text:?}");
            let said = unreadable_kubeconfig(&error);
            assert!(!said.contains("hunter") && said.contains("line "), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
        let missing = Kubeconfig::read_from("/nowhere/kubeconfig").unwrap_err();
        assert!(unreadable_kubeconfig(&missing).contains("/nowhere/kubeconfig"));
    }
}
