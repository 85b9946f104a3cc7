/* User Mode Linux 6.1 sets the extended state of a processor from an area that is too short for processors with AMX, which
 * the kernel refuses ("ptrace set fp regs failed"). Preloaded, this fills the rest of the area with what is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

long ptrace(enum __ptrace_request request, ...) {
  va_list list;
  va_start(list, request);
  pid_t pid = va_arg(list, pid_t);
  void *address = va_arg(list, void *), *data = va_arg(list, void *);
  va_end(list);
  long (*real)(enum __ptrace_request, pid_t, void *, void *) = dlsym(RTLD_NEXT, "ptrace");
  static char whole[32768];
  struct iovec *given = data, area = {whole, sizeof whole};
  if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE &&
      real(PTRACE_GETREGSET, pid, address, &area) == 0 && area.iov_len > given->iov_len) {
    memcpy(whole, given->iov_base, given->iov_len);
    data = &area;
  }
  return real(request, pid, address, data);
}
