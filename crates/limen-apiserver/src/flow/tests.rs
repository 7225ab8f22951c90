use tokio::task::JoinSet;

use super::*;

fn user(name: &str) -> Identity {
    Identity::new(name, &["system:authenticated"])
}

fn flow(seats: usize, wait: Duration) -> Arc<Flow> {
    Arc::new(Flow::new(&Limits {
        mutating: seats,
        read_only: seats,
        queue_length: 100,
        total_queue_length: 150,
        wait,
        bodies: 1 << 20,
    }))
}

fn counts(flow: &Flow) -> (usize, usize, usize) {
    flow.mutating.turns().counts()
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_greedy_user_does_not_starve_another() {
    let flow = flow(2, LONG);
    let mut greedy = JoinSet::new();
    for _ in 0..102 {
        let flow = Arc::clone(&flow);
        greedy.spawn(async move {
            let _permit = flow.enter(&user("greedy"), Class::Mutating).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        });
    }
    while counts(&flow).1 < 100 {
        tokio::task::yield_now().await;
    }
    let _permit = flow.enter(&user("ann"), Class::Mutating).await.unwrap();
    let still_waiting = counts(&flow).1;
    assert!(still_waiting > 90, "{} of the other user went first", 100 - still_waiting);
    while greedy.join_next().await.is_some() {}
}

#[tokio::test]
async fn who_waits_too_long_is_turned_away() {
    let flow = flow(1, Duration::from_millis(10));
    let _held = flow.enter(&user("ann"), Class::Mutating).await.unwrap();
    let error = flow.enter(&user("bob"), Class::Mutating).await.unwrap_err();
    assert_eq!((error.code.as_u16(), error.retry_after), (429, Some(1)));
    assert_eq!(counts(&flow), (1, 0, 0));
    assert_eq!(flow.rejected(), 1);
}

#[tokio::test]
async fn who_finds_the_queue_full_is_turned_away() {
    let flow = flow(1, LONG);
    let held = flow.enter(&user("ann"), Class::Mutating).await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..101 {
        let flow = Arc::clone(&flow);
        waiting.spawn(async move { flow.enter(&user("ann"), Class::Mutating).await.is_ok() });
    }
    while flow.rejected() < 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(counts(&flow), (1, 100, 1));
    drop(held);
    let outcomes = waiting.join_all().await;
    assert_eq!(outcomes.iter().filter(|entered| **entered).count(), 100);
    assert_eq!(counts(&flow), (0, 0, 0));
}

#[tokio::test]
async fn dropped_waiters_free_their_places() {
    let flow = flow(1, LONG);
    let held = flow.enter(&user("ann"), Class::Mutating).await.unwrap();
    for _ in 0..100 {
        let bob = user("bob");
        let waiting = flow.enter(&bob, Class::Mutating);
        let outcome = tokio::time::timeout(Duration::from_millis(1), waiting).await;
        assert!(outcome.is_err());
    }
    assert_eq!(counts(&flow), (1, 0, 0));
    drop(held);
    assert_eq!(counts(&flow), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_seat_is_lost_when_requests_are_cancelled() {
    let flow = flow(3, LONG);
    let mut tasks = JoinSet::new();
    for n in 0..300_u64 {
        let flow = Arc::clone(&flow);
        tasks.spawn(async move {
            let name = user(&format!("user{}", n % 7));
            let work = async {
                let _permit = flow.enter(&name, Class::Mutating).await;
                tokio::time::sleep(Duration::from_micros(n % 5 * 50)).await;
            };
            let _ = tokio::time::timeout(Duration::from_micros(n % 11 * 100), work).await;
        });
    }
    while tasks.join_next().await.is_some() {}
    assert_eq!(counts(&flow), (0, 0, 0));
}

#[tokio::test]
async fn some_requests_need_no_seat() {
    let flow = flow(0, Duration::ZERO);
    let ann = user("ann");
    assert!(flow.enter(&ann, Class::Health).await.is_ok());
    assert!(flow.enter(&ann, Class::ReadOnly).await.is_err());
    let master = Identity::new("root", &[MASTERS]);
    assert!(flow.enter(&master, Class::Mutating).await.is_ok());
}

#[tokio::test]
async fn room_is_free_again_when_it_is_dropped() {
    let flow = flow(1, LONG);
    let (ann, bob) = (user("ann"), user("bob"));
    let held = flow.room(&ann, 400_000).unwrap();
    assert_eq!(flow.room(&ann, 400_000).unwrap_err().code.as_u16(), 429);
    assert_eq!(flow.rejected(), 1);
    assert!(flow.room(&bob, 200_000).unwrap().is_some());
    drop(held);
    assert!(flow.room(&ann, 400_000).unwrap().is_some());

    let master = Identity::new("root", &[MASTERS]);
    assert!(flow.room(&master, 1 << 30).unwrap().is_none(), "masters need none");
}
