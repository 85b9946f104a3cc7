package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BinaryResult;
import com.google.gerrit.extensions.restapi.ResourceConflictException;
import com.google.gerrit.extensions.restapi.ResourceNotFoundException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.CacheResource;
import com.google.gerrit.sshd.CommandMetaData;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import org.refdb.gerrit.cache.CacheTools;

/** Writes all intact entries of a persistent cache to a stream; a cache that holds secrets is not exported. */
final class ExportCache {
  private ExportCache() {}

  /** Checks what makes an export impossible, because nothing can be refused once the body of a response has begun. */
  private static void check(CacheTools cache) throws ResourceConflictException {
    if (cache.isSecret()) {
      throw new ResourceConflictException(cache.whySecret());
    }
    if (cache.stat().inMemoryOnly()) {
      throw new ResourceConflictException(cache.name() + " has no files");
    }
  }

  /** {@code refdb cache export CACHE > FILE}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "export", description = "Writes all entries of a persistent cache to standard output")
  static final class Command extends CacheCommand.One {
    @Override
    void execute() throws UnloggedFailure, ResourceConflictException {
      CacheTools cache = cache();
      check(cache);
      try {
        stderr.println(cache.exportTo(out) + " entries exported");
      } catch (IllegalStateException | UncheckedIOException e) {
        throw new ResourceConflictException(e.getMessage(), e);
      }
    }
  }

  /** {@code GET /config/server/caches/NAME/refdb~export}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint implements RestReadView<CacheResource> {
    @Override
    public Response<BinaryResult> apply(CacheResource resource)
        throws ResourceNotFoundException, ResourceConflictException {
      CacheTools cache = CacheResources.tools(resource);
      check(cache);
      BinaryResult stream =
          new BinaryResult() {
            @Override
            public void writeTo(OutputStream to) {
              cache.exportTo(to);
            }
          };
      return Response.ok(stream.setContentType("application/octet-stream").setAttachmentName(cache.name() + ".export"));
    }
  }
}
