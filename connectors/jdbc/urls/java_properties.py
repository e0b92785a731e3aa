"""Names of JDBC driver properties without effect in Python drivers, listed to distinguish them from misspelled names."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LIBPQ = _words(
    """
    passfile channel_binding client_encoding application_name fallback_application_name keepalives keepalives_idle
    keepalives_interval keepalives_count tcp_user_timeout sslmode sslcompression sslcert sslkey sslcertmode sslpassword
    sslrootcert sslcrl sslcrldir sslsni requirepeer require_auth min_protocol_version max_protocol_version
    ssl_min_protocol_version ssl_max_protocol_version gssencmode krbsrvname gsslib gssdelegation target_session_attrs
    load_balance_hosts scram_client_key scram_server_key hostaddr service sslnegotiation
    """
)
"""libpq's keywords, which are passed on unchanged."""

SQLITE_PRAGMAS = _words(
    """
    application_id auto_vacuum automatic_index cache_size cache_spill case_sensitive_like cell_size_check count_changes
    default_cache_size defer_foreign_keys empty_result_callbacks encoding foreign_keys full_column_names fullfsync
    checkpoint_fullfsync ignore_check_constraints incremental_vacuum journal_mode journal_size_limit legacy_alter_table
    legacy_file_format locking_mode max_page_count mmap_size page_size query_only read_uncommitted recursive_triggers
    reverse_unordered_selects secure_delete short_column_names soft_heap_limit synchronous temp_store threads
    trusted_schema user_version wal_autocheckpoint
    """
)
"""SQLite's pragmas that can start a connection."""

PGJDBC = _words(
    """
    adaptiveFetch adaptiveFetchMaximum adaptiveFetchMinimum allowEncodingChanges assumeMinServerVersion
    authenticationPluginClassName autosave binaryTransfer binaryTransferDisable binaryTransferEnable cancelSignalTimeout
    classLoaderStrategy cleanupSavepoints connectExecutor connectExecutorArg convertBooleanToNumeric
    databaseMetadataCacheFields databaseMetadataCacheFieldsMiB defaultRowFetchSize disableColumnSanitiser
    escapeSyntaxCallMode flushCacheOnDdl groupStartupParameters gssResponseTimeout gssUseDefaultCreds
    hideUnprivilegedObjects hostRecheckSeconds jaasApplicationName jaasLogin localSocketAddress loggerFile loggerLevel
    logServerErrorDetail logUnclosedConnections maxResultBuffer maxSendBufferSize pemKeyAlgorithm
    preparedStatementCacheQueries preparedStatementCacheSizeMiB protocolVersion quoteReturningIdentifiers readOnlyMode
    receiveBufferSize replication reWriteBatchedInserts reWriteBatchedInsertsSize scramMaxIterations sendBufferSize
    sslhostnameverifier sslpasswordcallback sslResponseTimeout sspiServiceClass tcpNoDelay unknownLength
    useSpnego xmlFactoryFactory
    """
)
"""Properties of PostgreSQL's driver."""

MYSQL = _words(
    """
    alwaysSendSetIsolation authenticationPlugins autoClosePStmtStreams autocommit autoReconnect autoReconnectForPools
    autoSlowLog blankTableNameMeta blobsAreStrings blobSendChunkSize cacheCallableStmts cacheDefaultTimeZone
    cachePrepStmts cacheResultSetMetadata cacheServerConfiguration callableStmtCacheSize clientInfoProvider
    clobberStreamingResults clobCharacterEncoding compensateOnDuplicateKeyUpdateCounts connectionAttributes
    connectionLifecycleInterceptors continueBatchOnError createDatabaseIfNotExist credentialType databaseTerm
    defaultAuthenticationPlugin defaultFetchSize detectCustomCollations disabledAuthenticationPlugins disablePipeline
    disconnectOnExpiredPasswords dnsSrv dontCheckOnDuplicateKeyUpdateInSQL dontTrackOpenResources dumpQueriesOnException
    elideSetAutoCommits emptyStringsConvertToZero emulateLocators emulateUnsupportedPstmts enableEscapeProcessing
    enableQueryTimeouts exceptionInterceptors explainSlowQueries failOverReadOnly functionsNeverReturnBlobs
    galeraAllowedState gatherPerfMetrics generateSimpleParameterMetadata geometryDefaultType getProceduresReturnsFunctions
    holdResultsOpenOverStatementClose includeInnodbStatusInDeadlockExceptions includeThreadDumpInDeadlockExceptions
    initialTimeout interactiveClient jdbcCompliantTruncation loadBalanceBlacklistTimeout loadBalanceBlocklistTimeout
    loadBalanceConnectionGroup locatorFetchBufferSize logger logSlowQueries maintainTimeStats maxIdleTime maxPoolSize
    maxQuerySizeToLog maxReconnects maxRows metadataCacheSize minPoolSize netTimeoutForStreamingResults
    noAccessToProcedureBodies noDatetimeStringSync nullCatalogMeansCurrent nullDatabaseMeansCurrent
    nullNamePatternMatchesAll paranoid passwordCharacterEncoding pedantic permitMysqlScheme permitNoResults permitRedirect
    pinGlobalTxToPhysicalConnection pool poolName poolValidMinDelay populateInsertRowWithDefaultValues prepStmtCacheSize
    prepStmtCacheSqlLimit preserveInstants profileSQL queriesBeforeRetrySource queryInterceptors
    readFromSourceWhenNoReplicas readOnlyPropagatesToServer reconnectAtTxEnd resultSetSizeThreshold retriesAllDown
    rewriteBatchedStatements rollbackOnPooledClose scrollTolerantForwardOnly secondsBeforeRetrySource
    sendFractionalSeconds sendFractionalSecondsForTime serverAffinityOrder statementInterceptors strictUpdates
    tcpKeepAlive tcpKeepCount tcpKeepIdle tcpKeepInterval tcpNoDelay tcpRcvBuf tcpSndBuf tcpTrafficClass tinyInt1isBit
    trackSessionState transactionReplay transformedBitIsBoolean treatUtilDateAsTimestamp useAffectedRows useBatchMultiSend
    useBulkStmts useColumnNamesInFindColumn useCompression useConfigs useCursorFetch useHostsInPrivileges
    useInformationSchema useJDBCCompliantTimezoneShift useLegacyDatetimeCode useLocalSessionState useLocalTransactionState
    useMysqlMetadata useNanosForElapsedTime useOldAliasMetadataBehavior useReadAheadInput useResetConnection
    useServerPrepStmts useStreamLengthsInPrepStmts useUnbufferedInput useUnicode useUsageAdvisor uuidAsString
    yearIsDateType zeroDateTimeBehavior allowMultiQueries allowNanAndInf allowUrlInLocalInfile
    """
)
"""Properties of MySQL's (Connector/J) and MariaDB's drivers."""

SQLITE = _words(
    """
    enable_load_extension shared_cache hexkey_mode jdbc.explicit_readonly
    jdbc.get_generated_keys
    """
)

DUCKDB = _words(
    """
    jdbc_auto_commit jdbc_stream_results jdbc_pin_db jdbc_ignore_unsupported_options
    """
)

SQL_SERVER = _words(
    """
    accessTokenCallbackClass authenticationScheme bulkCopyForBatchInsertBatchSize cacheBulkCopyMetadata
    calcBigDecimalPrecision cancelQueryTimeout clientCertificate clientKey columnEncryptionSetting datetimeParameterType
    delayLoadingLobs disableStatementPooling enablePrepareOnFirstPreparedStatementCall fips gsscredential
    ignoreOffsetOnDateTimeOffsetConversion jaasConfigurationName keyStoreAuthentication keyStoreLocation
    keyStorePrincipalId keyStoreSecret lastUpdateCount lockTimeout msiClientId prepareMethod queryTimeout quotedIdentifier
    realm replication responseBuffering selectMethod sendStringParametersAsUnicode
    sendTemporalDataTypesAsStringForBulkCopy sendTimeAsDatetime serverPreparedStatementDiscardThreshold socketFactoryClass
    socketFactoryConstructorArg socketTimeout sslProtocol statementPoolingCacheSize transparentNetworkIPResolution
    trustManagerClass trustManagerConstructorArg trustStore trustStorePassword trustStoreType useBulkCopyForBatchInsert
    useDefaultGSSCredential useDefaultJaasConfig useFmtOnly vectorTypeSupport xopenStates maxResultBuffer batchSize
    bufferDir bufferMaxMemory bufferMinPackets cacheMetaData charset disconnectOnException lobBuffer maxStatements
    namedPipe prepareSQL processID progName socketKeepAlive TDS useCursors useJCIFS useLOBs useNTLMv2 wsid XaEmulation
    """
)
"""Properties of Microsoft's driver and jTDS."""

ORACLE = _words(
    """
    defaultRowPrefetch defaultBatchValue oracle.jdbc.autoCommitSpecCompliant oracle.jdbc.convertNcharLiterals
    oracle.jdbc.defaultConnectionValidation oracle.jdbc.defaultLobPrefetchSize oracle.jdbc.defaultNChar
    oracle.jdbc.defaultRowPrefetch oracle.jdbc.fanEnabled oracle.jdbc.implicitStatementCacheSize
    oracle.jdbc.J2EE13Compliant oracle.jdbc.javaNetNio oracle.jdbc.loginTimeout oracle.jdbc.mapDateToTimestamp
    oracle.jdbc.maxCachedBufferSize oracle.jdbc.ReadTimeout oracle.jdbc.RetainV9LongBindBehavior oracle.jdbc.tcpNoDelay
    oracle.jdbc.timezoneAsRegion oracle.jdbc.useFetchSizeWithLongColumn oracle.jdbc.useNio
    oracle.net.crypto_checksum_client oracle.net.crypto_checksum_types_client oracle.net.disableOob
    oracle.net.encryption_client oracle.net.encryption_types_client oracle.net.keepAlive oracle.net.ssl_cipher_suites
    oracle.net.ssl_version processEscapes remarksReporting javax.net.ssl.keyStore javax.net.ssl.keyStorePassword
    javax.net.ssl.keyStoreType javax.net.ssl.trustStore javax.net.ssl.trustStorePassword javax.net.ssl.trustStoreType
    """
)

DB2 = _words(
    """
    retrieveMessagesFromServerOnGetMessage progressiveStreaming loginTimeout blockingReadConnectionTimeout traceLevel
    traceFile clientProgramName sslTrustStoreLocation sslTrustStorePassword deferPrepares
    emulateParameterMetaDataForZCalls fullyMaterializeLobData resultSetHoldability securityMechanism timestampFormat
    """
)

HANA = _words(
    """
    autocommit locale isolationLevel statementCacheSize prefetch packetSize trustStore trustStorePassword keyStore
    keyStorePassword
    """
)

SNOWFLAKE = _words(
    """
    CLIENT_METADATA_REQUEST_USE_CONNECTION_CTX JDBC_QUERY_RESULT_FORMAT JDBC_TREAT_DECIMAL_AS_INT TIMEZONE
    disableOCSPChecks enablePutGet insecureMode multi_statement_count networkTimeout queryTimeout tracing useProxy
    proxyHost proxyPort proxyUser proxyPassword privateKey private_key_base64
    """
)

REDSHIFT = _words(
    """
    AuthMech BlockingRowsMode DSILogLevel LogLevel LogPath defaultRowFetchSize reWriteBatchedInserts readOnly FilterLevel
    """
)

CLICKHOUSE = _words(
    """
    compress decompress use_server_time_zone use_time_zone jdbc_ignore_unsupported_values jdbcCompliance max_buffer_size
    http_connection_provider
    """
)

VERTICA = _words(
    """
    AutoCommit ConnSettings DirectBatchInsert ResultBufferSize SearchPath StreamingBatchInsert ThreePartNaming ssl
    """
)

SYBASE = _words(
    """
    APPLICATIONNAME CHARSET DYNAMIC_PREPARE ENABLE_BULK_LOAD ENCRYPT_PASSWORD HOSTNAME JCONNECT_VERSION LITERAL_PARAMS
    charset
    """
)
