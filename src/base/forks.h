#pragma once

#include <memory>
#include <utility>

namespace weft {

// A child of fork() has copies of its parent's objects, but neither their threads nor their connections; memory that is
// shared stays shared. To end such a copy would end, or overwrite, what is the parent's: copies are left as they are.

// How often this process's ancestors have forked since they loaded weft: a child has a higher number than its parent
// had. Thread: any.
int forks_so_far();

// A member of what a forked child must not end.
class Owner {
 public:
  // This process is a forked child of the one that made this.
  bool inherited() const { return forks_ != forks_so_far(); }

 private:
  const int forks_ = forks_so_far();
};

// Gives up what a forked child has inherited, without ending it.
template <class T>
void leave(std::unique_ptr<T>& inherited) {
  (void)inherited.release();
}
template <class T>
void leave(std::shared_ptr<T>& inherited) {
  (void)new std::shared_ptr<T>(std::move(inherited));
}

// As std::make_shared; a forked child does not end the object.
template <class T>
std::shared_ptr<T> left_to_owner(std::unique_ptr<T> made) {
  return std::shared_ptr<T>(made.release(), [owner = Owner()](T* object) {
    if (!owner.inherited()) delete object;
  });
}
template <class T, class... Arguments>
std::shared_ptr<T> make_owned(Arguments&&... arguments) {
  return left_to_owner(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

}  // namespace weft
