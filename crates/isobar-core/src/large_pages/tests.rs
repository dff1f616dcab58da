use super::*;

/// An allocation with a number in all of its bytes.
struct Marked {
    start: *mut u8,
    layout: Layout,
    mark: u8,
}

impl Marked {
    fn new(size: usize, align: usize, mark: u8, is_zeroed: bool) -> Self {
        let layout = Layout::from_size_align(size, align).unwrap();
        // SAFETY: the size is not zero.
        let start = unsafe { if is_zeroed { LargePages.alloc_zeroed(layout) } else { LargePages.alloc(layout) } };
        assert!(!start.is_null() && (start as usize).is_multiple_of(align));
        let this = Self { start, layout, mark };
        if is_zeroed {
            assert!(this.bytes().iter().all(|&byte| byte == 0), "{size}");
        }
        // SAFETY: so many bytes have been allocated.
        unsafe { start.write_bytes(mark, size) };
        this
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes have been allocated and written.
        unsafe { std::slice::from_raw_parts(self.start, self.layout.size()) }
    }

    fn grow(&mut self, size: usize) {
        let old = self.layout.size();
        // SAFETY: allocated with this layout.
        self.start = unsafe { LargePages.realloc(self.start, self.layout, size) };
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        // SAFETY: so many bytes have been allocated.
        assert!(unsafe { std::slice::from_raw_parts(self.start, old.min(size)) }.iter().all(|&byte| byte == self.mark));
        // SAFETY: as above.
        unsafe { self.start.write_bytes(self.mark, size) };
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        assert!(self.bytes().iter().all(|&byte| byte == self.mark), "{} bytes were overwritten", self.layout.size());
        // SAFETY: allocated with this layout.
        unsafe { LargePages.dealloc(self.start, self.layout) };
    }
}

/// Checks that several threads may allocate, grow and free memory of the system, of regions and of mappings, more than
/// is kept.
#[test]
fn allocations_do_not_overlap() {
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            scope.spawn(move || {
                let mut state = u64::from(thread) + 1;
                let mut next = |most: usize| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) as usize % most
                };
                let mut held: Vec<Marked> = Vec::new();
                for step in 0..300 {
                    let most = [100, LEAST, 2 * LEAST, 1 << 20, 5 << 20][next(5)];
                    let size = 1 + next(most);
                    let align = [1, 8, 64, PAGE, LARGE_PAGE][next(5)];
                    let mark = (64 * usize::from(thread) + 1 + step % 63) as u8;
                    held.push(Marked::new(size, align, mark, next(2) == 0));
                    if next(3) == 0 {
                        let at = next(held.len());
                        held[at].grow(1 + next(3 * LEAST));
                    }
                    if held.len() > 12 {
                        held.swap_remove(next(12));
                    }
                }
            });
        }
    });
}

#[test]
fn regions_and_mappings_are_large_and_used_again() {
    for size in [MOST, MOST + 1, MOST + LARGE_PAGE] {
        drop(Marked::new(size, 64, 7, false));
        drop(Marked::new(size, 64, 9, true));
    }
    let first = Marked::new(LEAST, 64, 1, false);
    assert!(matches!(Home::of(first.layout), Home::Region) == cfg!(target_os = "linux"));
    let too_large = Layout::from_size_align(isize::MAX as usize - PAGE, 64).unwrap();
    // SAFETY: the size is not zero.
    assert!(unsafe { LargePages.alloc(too_large) }.is_null());
}

#[test]
fn free_parts_are_joined() {
    let mut pool = Pool::NEW;
    for range in [10..20, 30..40, 20..25, 25..30, 50..50] {
        pool.insert(range);
    }
    assert_eq!(pool.free.into_iter().collect::<Vec<_>>(), [(10, 30)]);
}

#[test]
#[cfg(target_os = "linux")]
fn as_much_is_kept_as_was_in_use() {
    let (mut pool, layout) = (Pool::NEW, Layout::from_size_align(40 << 20, 64).unwrap());
    let fill = |pool: &mut Pool, count: usize| -> Vec<usize> {
        (0..count)
            .map(|_| {
                let (start, _) = pool.take(layout).unwrap();
                // SAFETY: a part of the pool that nothing else has.
                unsafe { *(start as *mut u8) = 1 };
                start
            })
            .collect()
    };
    let is_kept = |pool: &Pool| {
        // SAFETY: parts are mapped, in use or not.
        let marks = pool.free.keys().map(|&start| unsafe { *(start as *const u8) });
        marks.collect::<Vec<u8>>()
    };
    // Parts that were in use at once are all kept; a page of a part that is given back is zero.
    let first = fill(&mut pool, 5);
    first.into_iter().for_each(|start| pool.give(start, layout.size()));
    assert!(is_kept(&pool).into_iter().all(|mark| mark == 1) && pool.used == 0 && pool.kept == 5 * layout.size());
    // More than MOST_KEPT is returned to the system.
    let many = fill(&mut pool, 1 + MOST_KEPT / layout.size());
    many.into_iter().for_each(|start| pool.give(start, layout.size()));
    assert!(is_kept(&pool).contains(&0) && pool.kept <= MOST_KEPT && pool.used == 0);
}
