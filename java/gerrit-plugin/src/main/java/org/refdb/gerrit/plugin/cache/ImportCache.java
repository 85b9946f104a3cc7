package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BadRequestException;
import com.google.gerrit.extensions.restapi.RawInput;
import com.google.gerrit.extensions.restapi.ResourceNotFoundException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestModifyView;
import com.google.gerrit.server.config.CacheResource;
import com.google.gerrit.sshd.CommandMetaData;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import org.refdb.engine.Cache;
import org.refdb.gerrit.cache.CacheTools;

/** Reads the entries of an export into a persistent cache. */
final class ImportCache {
  private ImportCache() {}

  private static Cache.Imported run(CacheTools cache, InputStream from) throws BadRequestException {
    try {
      return cache.importFrom(from);
    } catch (IllegalStateException | UncheckedIOException e) {
      throw new BadRequestException(e.getMessage(), e);
    }
  }

  /** {@code refdb cache import CACHE < FILE}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "import", description = "Takes the entries of an export from standard input")
  static final class Command extends CacheCommand.One {
    @Override
    void execute() throws UnloggedFailure, BadRequestException {
      Cache.Imported imported = ImportCache.run(cache(), in);
      stdout.println(
          "%d entries imported, %d kept as they were, %d too large"
              .formatted(imported.stored(), imported.kept(), imported.tooLarge()));
    }
  }

  /** Input of the REST endpoint: an export as the body. */
  static final class ExportInput {
    RawInput raw;
  }

  /** {@code POST /config/server/caches/NAME/refdb~import}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint implements RestModifyView<CacheResource, ExportInput> {
    @Override
    public Response<Cache.Imported> apply(CacheResource cache, ExportInput input)
        throws ResourceNotFoundException, BadRequestException, IOException {
      CacheTools tools = CacheResources.tools(cache);
      if (input == null || input.raw == null) {
        throw new BadRequestException("send an export as application/octet-stream");
      }
      try (InputStream from = input.raw.getInputStream()) {
        return Response.ok(run(tools, from));
      }
    }
  }
}
